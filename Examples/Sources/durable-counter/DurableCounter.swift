import ArgumentParser
import FluxCore
import FluxPersistence
import SQLiteLog
import Terminal

#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Several producers that count, each number on disk before the next; the crash test starts this program and kills it.
@main
struct DurableCounter: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "durable-counter",
        abstract: "Counts in an SQLite database until it is killed, and resumes where it stopped.",
        discussion: """
            Prints one line about the recovered state, then a line for each number that is safe on disk: \
            "acknowledged", the producer and the number.

            The exit status is 1 if a line cannot be written, 2 if the database cannot be used, and 64 for invalid \
            arguments.
            """
    )

    @Argument(help: "The database; created if there is none.")
    var path: String

    @Argument(help: "How many producers count at the same time, each on its own.")
    var producers = 1

    func validate() throws {
        if producers < 1 { throw ValidationError("There must be at least one producer.") }
    }

    func run() async throws {
        do {
            let log = try SQLiteLog<Marks>(path: path, coding: .json())
            let store = try await FluxStore.restored(
                from: log, initialState: Marks(), dispatcher: nil, compactEvery: 100)
            try await count(store)
        } catch {
            complain(error)
            throw ExitCode(2)
        }
    }

    private func count(_ store: FluxStore<Marks>) async throws {
        let recovered = store.state
        let marks = (0..<producers).map { "\(recovered.marks[$0, default: 0])" }.joined(separator: " ")
        say("recovered \(recovered.count) \(recovered.disorder) \(store.revision) \(marks)")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for producer in 0..<producers {
                group.addTask {
                    var number = recovered.marks[producer, default: 0]
                    while true {
                        number += 1
                        try await store.dispatch(durably: .mark(producer: producer, number: number))
                        say("acknowledged \(producer) \(number)")
                    }
                }
            }
            try await group.waitForAll()
        }
    }
}

/// Prints a line in one piece, so that a kill cuts none in two; if that fails, the program exits.
private func say(_ line: String) {
    do {
        try Output.standard.write(line + "\n")
    } catch {
        complain(error)
        exit(1)
    }
}

private func complain(_ error: any Error) {
    try? Output.errors.write("durable-counter: \(error)\n")
}

/// The last number of each producer, and how often a number was not the next one.
struct Marks: FluxState, Codable {
    enum Action: FluxAction, Codable { case mark(producer: Int, number: Int) }

    var count = 0
    var disorder = 0
    var marks: [Int: Int] = [:]

    mutating func handle(action: Action) -> Marks? {
        switch action {
        case .mark(let producer, let number):
            if number != marks[producer, default: 0] + 1 { disorder += 1 }
            marks[producer] = number
            count += 1
        }
        return self
    }
}
