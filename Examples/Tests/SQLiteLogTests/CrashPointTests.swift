import FluxCore
import FluxPersistence
import ProgramTesting
import SQLiteLog
import Testing

/// At each change of the disk in turn, the process stops, the power fails, or the change fails.
@Suite struct CrashPointTests {
    /// The steps that the log performs; the actions are "1", "2" and so on.
    private static let steps: [Step] = [
        .append(1...1), .append(2...3), .compact(3), .append(4...4), .append(5...7), .compact(6), .append(8...8),
    ]

    private enum Step {
        case append(ClosedRange<Int>)
        case compact(Int)

        func run(_ log: SQLiteLog<Words>) async throws {
            switch self {
            case .append(let numbers):
                try await log.append(numbers.map { FluxLogEntry(number: UInt64($0), action: .append("\($0)")) })
            case .compact(let number):
                let state = Words(words: (1...number).map { "\($0)" })
                try await log.compact(FluxSnapshot(state: state, number: UInt64(number), revision: UInt64(number)))
            }
        }

        var last: Int {
            switch self {
            case .append(let numbers): numbers.upperBound
            case .compact(let number): number
            }
        }
    }

    struct Wrong: Error, CustomStringConvertible {
        let description: String
    }

    private static func open(_ disk: DatabaseDisk) throws -> SQLiteLog<Words> {
        try SQLiteLog(path: disk.folder + "log.sqlite", coding: .json())
    }

    /// Performs the steps as far as possible.
    ///
    /// - Returns: How many actions were acknowledged, and how many may be in the log.
    private static func run(on disk: DatabaseDisk) async -> (acknowledged: Int, attempted: Int) {
        var (acknowledged, attempted) = (0, 0)
        do {
            let log = try open(disk)
            for step in steps {
                attempted = max(attempted, step.last)
                try await step.run(log)
                acknowledged = max(acknowledged, step.last)
            }
        } catch {}
        return (acknowledged, attempted)
    }

    /// The words in a log, whose entries have to be consecutive.
    private static func words(in log: SQLiteLog<Words>) async throws -> [String] {
        let contents = try await log.load()
        var state = contents.snapshot?.state ?? Words()
        var number = contents.snapshot?.number ?? 0
        for entry in contents.entries {
            number += 1
            if entry.number != number { throw Wrong(description: "\(entry.number) where \(number) should be") }
            if let next = state.handle(action: entry.action) { state = next }
        }
        return state.words
    }

    @Test func `After a stop at any change, acknowledged actions are there in order, and the log continues`()
        async throws
    {
        var random = SplitMix(seed: 15)
        var checked: Set<DatabaseDisk.Image> = []
        for stop in 1... {
            let disk = DatabaseDisk(plan: DatabaseDisk.Plan(stop: stop))
            let (acknowledged, attempted) = await Self.run(on: disk)
            for image in disk.images(random: &random) {
                checked.insert(image)
                do {
                    try await check(image, from: acknowledged, to: attempted)
                } catch {
                    throw Wrong(description: "stopped at change \(stop), with \(acknowledged) acknowledged: \(error)")
                }
            }
            if disk.changes < stop {
                #expect(acknowledged == 8)
                #expect(stop > 20)
                break
            }
        }
        #expect(checked.count > 200)
    }

    /// Opens what a power loss may have left, and continues with it.
    private func check(_ image: DatabaseDisk.Image, from least: Int, to most: Int) async throws {
        let disk = DatabaseDisk(image)
        var count = 0
        do {
            let log = try Self.open(disk)
            let words = try await Self.words(in: log)
            count = words.count
            if words != (0..<count).map({ "\($0 + 1)" }) || !(least...most).contains(count) {
                throw Wrong(description: "\(words)")
            }
            try await Step.append(count + 1...count + 1).run(log)
            try await Step.compact(count + 1).run(log)
        }
        if try await Self.words(in: Self.open(disk)).count != count + 1 {
            throw Wrong(description: "it does not go on")
        }
    }

    @Test(arguments: [false, true])
    func `A store loses nothing when a write, sync or deletion fails, even if the power fails then`(
        isFull: Bool
    ) async throws {
        var random = SplitMix(seed: 15)
        for nth in 1... {
            let disk = DatabaseDisk(plan: DatabaseDisk.Plan(fault: (nth, isFull)))
            try await dispatch(on: disk, nth)
            guard let failed = disk.failed else {
                #expect(nth > 20)
                return
            }
            for image in disk.images(random: &random) {
                do {
                    try await check(image, from: 8, to: 8)
                } catch {
                    throw Wrong(description: "\(failed) failed at change \(nth): \(error)")
                }
            }
        }
    }

    /// Dispatches the actions of the steps durably; the first attempt to open the log may fail.
    private func dispatch(on disk: DatabaseDisk, _ nth: Int) async throws {
        let log = try (try? Self.open(disk)) ?? Self.open(disk)
        let store = try await FluxStore.restored(
            from: log, initialState: Words(), dispatcher: nil, compactEvery: 3, backoff: .none, onFailure: { _ in })
        for number in 1...8 { try await store.dispatch(durably: .append("\(number)")) }
        await store.flush()
    }
}
