import Dispatch
import FluxCore
import FluxPersistence
import SQLiteLog

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// Several producers that count, each number on disk before the next: what the crash test starts and kills.
///
///     durable-counter PATH PRODUCERS
///
/// It prints what it has recovered, and then a line for each number that was acknowledged.
@main
enum DurableCounter {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 3, let producers = Int(arguments[2]) else {
            say("usage: durable-counter PATH PRODUCERS")
            exit(2)
        }
        let log = try SQLiteLog<Marks>(path: arguments[1], coding: .json())
        let store = try await FluxStore.restored(
            from: log, initialState: Marks(), dispatcher: nil, compactEvery: 100)
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

    /// Writes a line in one call, so that a kill cuts none in two.
    static func say(_ line: String) {
        var text = line + "\n"
        text.withUTF8 { _ = write(1, $0.baseAddress, $0.count) }
    }
}

/// Which number each producer has come to, and how often one was not the next.
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
