import ArgumentParser
import AsyncHTTPClient
import FluxReplication
import Foundation
import JetStreamLog
import LocalServers
import Terminal

@main
struct ClusterDemo: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cluster-demo",
        abstract: "Runs three NATS servers and three nodes on this machine, and can make them fail.",
        discussion: """
            Prints the addresses, and runs until SIGINT, SIGTERM or SIGHUP; then everything it has started ends too. \
            Its files are in a temporary folder, which is removed at the end. It needs nats-server.

            The exit status is 0; 1 with a line for each failed check, or after an error; 130 if --chaos was interrupted; \
            or 64 for invalid options.
            """,
        subcommands: [Run.self, Node.self], defaultSubcommand: Run.self)
}

/// The demo itself.
struct Run: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Starts the servers and the nodes; with --chaos, checks them.")

    @Option(
        help: ArgumentHelp(
            "Kills, pauses and disconnects servers and nodes for this time, and checks that nothing is lost.",
            valueName: "seconds"))
    var chaos: Int?
    @Option(help: "The seed of all random choices.") var seed = UInt64.random(in: 1...999_999)
    @Flag(help: "Leaves out the measurements of --chaos, which take a minute.") var noFigures = false

    @Flag(help: "With --chaos: no nodes; the C client of NATS appends directly. Whatever is lost then, NATS has lost.")
    var bare = false

    @Option(help: ArgumentHelp("Only faults with these numbers, from 0.", visibility: .hidden)) var fault: [Int] = []

    func validate() throws {
        if let chaos, chaos < 1 { throw ValidationError("--chaos must be at least 1.") }
        if bare, chaos == nil { throw ValidationError("--bare requires --chaos.") }
        if fault.contains(where: { !Faults.Kind.allCases.indices.contains($0) }) {
            throw ValidationError("--fault must be 0 to \(Faults.Kind.allCases.count - 1).")
        }
        if bare, !fault.isEmpty, fault.allSatisfy({ Faults.Kind.allCases[$0].isOfNode }) {
            throw ValidationError("--bare has no nodes, and each --fault that was given needs one.")
        }
    }

    func run() async throws {
        let work = Task { try await self.work() }
        let interrupt = Interrupt {
            // A later signal could not stop anything sooner, and would leave the servers behind.
            for number in Interrupt.signals { signal(number, SIG_IGN) }
            work.cancel()
        }
        defer { interrupt.stop() }
        do {
            try await work.value
        } catch is CancellationError {
            try? Output.standard.write("stopped\n")
            if chaos != nil { throw ExitCode(130) }
        } catch let error as ExitCode {
            throw error
        } catch {
            if work.isCancelled { throw ExitCode(130) }
            try? Output.errors.write("cluster-demo: \(error)\n")
            throw ExitCode(1)
        }
    }

    private func work() async throws {
        raiseFileLimit()
        // People get boards. The nodes that --chaos checks are smaller, and report what they have applied.
        let cluster = try await Cluster(program: bare ? nil : chaos == nil ? .board : .own)
        defer { cluster.end() }
        let version = try NatsServer.version()
        tell("nats-server \(version)\(ServerVersion(version).warning.map { ": \($0)" } ?? "")")
        for server in cluster.servers { tell("server \(server.name): \(server.address)") }
        for node in cluster.nodes {
            try await waitUntilServing(node, of: cluster)
            tell("node \(node.name): \(node.address)")
        }
        guard let chaos else {
            while true { try await Task.sleep(for: .seconds(3_600)) }
        }
        let problems = bare ? try await control(cluster, chaos) : try await check(cluster, chaos)
        for problem in problems.prefix(20) { try? Output.errors.write("cluster-demo: \(problem)\n") }
        if !problems.isEmpty { throw ExitCode(1) }
        tell(
            bare
                ? "all checks passed: every server has every acknowledged message"
                : "all checks passed: the same state on all nodes, each action once and in order, linearizable, own writes read"
        )
    }

    private func check(_ cluster: Cluster, _ seconds: Int) async throws -> [String] {
        let logs = try await patiently { () throws(FluxSharedLogError) in
            try await JetStreamLog(servers: cluster.addresses, stream: Cluster.stream)
        }
        var problems: [String] = []
        if !noFigures {
            let figures = Figures(logs: logs, servers: cluster.addresses, stream: Cluster.stream, tell: tell)
            let ratio = try await figures.throughput()
            try await figures.start()
            #if !DEBUG
                if ratio < 0.8 {
                    problems.append("appends through a replica reach \(ratio) of the bare client's rate, not 0.8")
                }
            #else
                _ = ratio
            #endif
        }
        problems += try await Chaos(
            cluster: cluster, logs: logs, faults: faults(cluster, seconds, Faults.Kind.allCases), tell: tell
        ).run()
        return problems
    }

    private func control(_ cluster: Cluster, _ seconds: Int) async throws -> [String] {
        let kinds = Faults.Kind.allCases.filter { !$0.isOfNode }
        return try await Control(cluster: cluster, faults: faults(cluster, seconds, kinds), tell: tell).run()
    }

    private func faults(_ cluster: Cluster, _ seconds: Int, _ kinds: [Faults.Kind]) -> Faults {
        tell("seed \(seed)")
        let wanted = fault.map { Faults.Kind.allCases[$0] }
        return Faults(
            cluster: cluster, seconds: seconds, seed: seed,
            kinds: wanted.isEmpty ? kinds : kinds.filter(wanted.contains), tell: tell)
    }

    private func waitUntilServing(_ node: NodeProcess, of cluster: Cluster) async throws {
        let deadline = ContinuousClock.now + .seconds(60)
        while await !isServing(node) {
            if let server = cluster.servers.first(where: { !$0.isRunning }) {
                throw ServerFailure(description: "the server \(server.name) has ended: \(server.lastWords)")
            }
            if !node.isRunning || .now > deadline {
                throw ServerFailure(description: "\(node.name) does not serve: \(node.lastWords)")
            }
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    private func isServing(_ node: NodeProcess) async -> Bool {
        let request = HTTPClientRequest(url: "\(node.address)/health")
        return (try? await HTTPClient.shared.execute(request, timeout: .seconds(1)))?.status == .ok
    }

    @Sendable private func tell(_ line: String) { try? Output.standard.write(line + "\n") }
}
