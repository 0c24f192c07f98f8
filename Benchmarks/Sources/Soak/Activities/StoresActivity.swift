import Dispatch
import FluxCore
import FluxObservation
import FluxRouting
import Synchronization

/// Stores that are created and dropped on a dispatcher that stays, watched in every way while two threads dispatch.
struct StoresActivity: Activity {
    private static let producers = 2
    private static let marks = 100
    private static let later = 5

    private let town = FluxDispatcher()
    /// Exists, and is watched, all the time.
    private let resident: FluxStore<Journal>
    private let residentSeen = Tally()
    private let watching: FluxSubscription

    init() {
        resident = FluxStore(initialState: Journal(), dispatcher: town)
        watching = resident.subscribe { [residentSeen] in residentSeen.see($0.count) }
    }

    func round() async throws {
        let total = Self.producers * Self.marks
        let before = resident.state.count
        let passed = Sums(1)
        let registration = town.add(
            .before { [canary = Canary()] _ in withExtendedLifetime(canary) { passed.add(1, to: 0) } })
        let board = FluxStore(initialState: Board(), dispatcher: town)
        let journals = [0, 1].map { _ in FluxStore(initialState: Journal(), dispatcher: town) }
        let watchers = await Self.watchers(of: board)
        let view = FluxView(board, journals[0], journals[1]) { [$0.count, $1.count, $2.count] }
        let cuts = Cuts()
        let cutting = view.subscribe(startingWithCurrent: true) { cuts.see($0) }
        let slow = SlowConsumer(board)
        let echo = Echo(board)

        try await produce(into: board, reading: view, cuts)
        // C8: one of the handlers has not returned yet.
        for watcher in watchers {
            try await promise("C8", "\(watcher.kind) sees all beside a blocked handler") { watcher.tally.last == total }
        }
        slow.goOn()
        await board.flush()
        await view.flush()

        try promise("C1", "marks applied", board.state.count, is: total)
        try promise("C1", "unannounced actions applied", board.state.quiet, is: total / 10)
        try promise("C3", "marks out of order", board.state.disorder, is: 0)
        for journal in journals {
            try promise("C4", "the order of all actions", journal.state.order, is: board.state.order)
        }
        try promise("C5", "the revision", board.revision, is: UInt64(total))
        try slow.tally.check("a slow handler", isLossless: true, to: total)
        await echo.store.flush()
        try promise(
            "C6", "what a handler dispatched", [echo.store.state.count, echo.store.state.disorder], is: [total, 0])
        for watcher in watchers {
            try watcher.tally.check("\(watcher.kind)", isLossless: watcher.kind.isLossless, to: total)
        }

        // C7: half of them end, and see no later change.
        for (index, watcher) in watchers.enumerated() where index.isMultiple(of: 2) { await watcher.end() }
        for number in 1...Self.later {
            town.dispatch(action: Board.Action.mark(producer: 0, number: Self.marks + number))
        }
        for (index, watcher) in watchers.enumerated() {
            let last = index.isMultiple(of: 2) ? total : total + Self.later
            try await promise("C5", "\(watcher.kind) ends on the newest") { watcher.tally.last == last }
            await watcher.end()
            try watcher.tally.check("\(watcher.kind)", isLossless: watcher.kind.isLossless, to: last)
        }
        await view.flush()
        try cuts.check(last: total + Self.later)
        cutting.unsubscribe()
        registration.remove()
        try promise("C1", "actions past middleware", passed[0], is: total + total / 10 + Self.later)
        await resident.flush()
        try promise("C1", "marks in a store that stays", resident.state.count, is: before + total + Self.later)
        try residentSeen.check("a subscription that stays", isLossless: true, to: resident.state.count)
        try await letGo()
    }

    private static func watchers(of board: FluxStore<Board>) async -> [Watcher] {
        var watchers: [Watcher] = []
        for kind in Watching.allCases { watchers.append(await Watcher(kind, of: board)) }
        return watchers
    }

    private func produce(into board: FluxStore<Board>, reading view: FluxView<[Int]>, _ cuts: Cuts) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for producer in 0..<Self.producers {
                group.addTask {
                    for number in 1...Self.marks {
                        town.dispatch(action: Board.Action.mark(producer: producer, number: number))
                        try promise("C2", "the last mark", board.state.last[producer], is: number)
                        if number.isMultiple(of: 10) { town.dispatch(action: Board.Action.quiet) }
                    }
                }
            }
            group.addTask {
                let reader = Cuts()
                for _ in 0..<Self.marks {
                    reader.see(view.state)
                    await Task.yield()
                }
                try reader.check()
            }
            try await group.waitForAll()
        }
    }

    /// Checks C10: a released store delivers its pending changes, and then releases its handlers.
    private func letGo() async throws {
        let tally = Tally()
        var store: FluxStore<Board>? = FluxStore(initialState: Board(), dispatcher: town)
        let token = store?.subscribe { [canary = Canary()] state in
            withExtendedLifetime(canary) { tally.see(state.count) }
        }
        for number in 1...20 { store?.dispatch(action: .mark(producer: 0, number: number)) }
        store = nil
        try await promise("C10", "what was due when its store was let go of") { tally.last == 20 }
        try tally.check("a handler whose store is gone", isLossless: true, to: 20)
        withExtendedLifetime(token) {}
    }
}

/// Checks what a view of three stores has shown: all three in step, and never going back.
private final class Cuts: Sendable {
    private let state = Mutex((last: 0, fault: String?.none))

    func see(_ counts: [Int]) {
        state.withLock { state in
            if Set(counts).count > 1 { state.fault = "stores of one dispatcher out of step: \(counts)" }
            if counts[0] < state.last { state.fault = "a view went back from \(state.last) to \(counts[0])" }
            state.last = counts[0]
        }
    }

    func check(last: Int? = nil) throws {
        let state = state.withLock { $0 }
        if let fault = state.fault { throw BrokenPromise("C11", fault) }
        if let last { try promise("C11", "the last cut", state.last, is: last) }
    }
}

/// A handler that blocks in its first call, on its own queue.
private struct SlowConsumer {
    let tally = Tally()
    private let gate = DispatchSemaphore(value: 0)
    private let token: FluxSubscription

    init(_ store: FluxStore<Board>) {
        token = store.subscribe(on: DispatchQueue(label: "slow")) { [tally, gate, canary = Canary()] state in
            if tally.last == 0 { gate.wait() }
            withExtendedLifetime(canary) { tally.see(state.count) }
        }
    }

    func goOn() { gate.signal() }
}

/// A handler that dispatches each change once more, to another store.
private struct Echo {
    let store = FluxStore(initialState: Board(), dispatcher: nil)
    private let token: FluxSubscription

    init(_ board: FluxStore<Board>) {
        token = board.subscribe { [store, canary = Canary()] state in
            withExtendedLifetime(canary) { _ = store.dispatch(action: .mark(producer: 0, number: state.count)) }
        }
    }
}
