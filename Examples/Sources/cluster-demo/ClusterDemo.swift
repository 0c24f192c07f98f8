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
        abstract: "Three NATS servers and three nodes on this machine, and what goes wrong among them.",
        discussion: """
            Prints the addresses, and runs until SIGINT or SIGTERM; then everything it has started ends too. Its files are in a \
            temporary folder, which goes. It needs nats-server.

            The exit status is 0, or 1 with a line for each thing that did not hold.
            """,
        subcommands: [Run.self, Node.self], defaultSubcommand: Run.self)
}

/// The demo itself.
struct Run: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Starts the servers and the nodes.", shouldDisplay: false)

    @Option(
        help: ArgumentHelp(
            "Kills, pauses and cuts off servers and nodes for so long, and checks that nothing is lost.",
            valueName: "seconds"))
    var chaos: Int?
    @Option(help: "What to take at random begins with this number.") var seed = UInt64.random(in: 1...999_999)
    @Flag(help: "Leaves out the figures of --chaos, which take a minute.") var noFigures = false

    @Option(help: ArgumentHelp("Only faults of these numbers, from 0.", visibility: .hidden)) var fault: [Int] = []
    @Option(help: ArgumentHelp("How many entries a snapshot covers at most.", visibility: .hidden)) var snapshotEvery =
        400

    func validate() throws {
        if let chaos, chaos < 1 { throw ValidationError("--chaos must be at least 1.") }
    }

    func run() async throws {
        let work = Task { try await self.work() }
        let interrupt = Interrupt {
            // What comes now is too late to stop anything sooner, and would leave the servers behind.
            for number in [SIGINT, SIGTERM] { signal(number, SIG_IGN) }
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
        // For people there are boards; what is checked under --chaos is smaller, and says what it has applied.
        let cluster = try await Cluster(program: chaos == nil ? .board : .own, snapshotEvery: snapshotEvery)
        defer { cluster.end() }
        let logs = try await patiently { () throws(FluxSharedLogError) in
            try await JetStreamLog(servers: cluster.addresses, stream: Cluster.stream)
        }
        for server in cluster.servers { tell("server \(server.name): \(server.address)") }
        for node in cluster.nodes {
            try await waitUntilServing(node)
            tell("node \(node.name): \(node.address)")
        }
        guard let chaos else {
            while true { try await Task.sleep(for: .seconds(3_600)) }
        }
        var problems: [String] = []
        if !noFigures {
            let figures = Figures(logs: logs, servers: cluster.addresses, stream: Cluster.stream, tell: tell)
            let ratio = try await figures.throughput()
            _ = try await figures.start()
            #if !DEBUG
                if ratio < 0.8 {
                    problems.append("appends through a replica are \(ratio) times those of the bare client, not 0.8")
                }
            #else
                _ = ratio
            #endif
        }
        tell("seed \(seed)")
        problems += try await Chaos(
            cluster: cluster, logs: logs, seconds: chaos, seed: seed,
            faults: fault.isEmpty ? Chaos.Fault.allCases : fault.map { Chaos.Fault.allCases[$0] }, tell: tell
        ).run()
        for problem in problems.prefix(20) { try? Output.errors.write("cluster-demo: \(problem)\n") }
        if !problems.isEmpty { throw ExitCode(1) }
        tell(
            "all of it held: the same state at all nodes, each action once and in order, linearizable, own writes read")
    }

    private func waitUntilServing(_ node: NodeProcess) async throws {
        let deadline = ContinuousClock.now + .seconds(60)
        while true {
            do {
                let request = HTTPClientRequest(url: "\(node.address)/health")
                let response = try await HTTPClient.shared.execute(request, timeout: .seconds(1))
                if response.status == .ok { return }
            } catch  where ContinuousClock.now > deadline {
                throw ServerFailure(description: "\(node.name) does not serve: \(node.lastWords)")
            } catch {}
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    @Sendable private func tell(_ line: String) { try? Output.standard.write(line + "\n") }
}
