import FluxCore
import FluxPersistence
import TestSupport
import Testing

/// A store with a log of actions: what was acknowledged is there after a crash, in order and exactly once.
@Suite struct LogTests {
    @Test func `A durable dispatch returns once its action is in the log`() async throws {
        let log = MemoryLog<Counter>()
        let store = FluxStore(initialState: Counter(), dispatcher: nil, log: log)
        #expect(try await store.dispatch(durably: .add(1)) == 1)
        #expect(try await store.dispatch(durably: .addSilently(1)) == nil)
        #expect(try await store.dispatch(durably: .add(1)) == 2)
        let recovered = try await FluxStore.restored(from: log, initialState: Counter(), dispatcher: nil)
        #expect(recovered.state.count == 3)
        #expect(recovered.revision == 2)
    }

    @Test func `No revision is given to two states, even if the first action had none`() async throws {
        let log = MemoryLog<Counter>()
        let first = try await FluxStore.restored(from: log, initialState: Counter(), dispatcher: nil)
        #expect(try await first.dispatch(durably: .addSilently(1)) == nil)
        var last: UInt64 = 0
        for _ in 0..<4 {
            let store = try await FluxStore.restored(from: log, initialState: Counter(), dispatcher: nil)
            #expect(store.revision == Swift.max(last, 1))
            last = try await store.dispatch(durably: .add(1)) ?? 0
            #expect(last == store.revision)
        }
        #expect(last == 5)
    }

    @Test(arguments: [false, true])
    func `A store that is flushed and released releases its log at once`(isRestored: Bool) async throws {
        func used() async throws -> Weak {
            let log = MemoryLog<Counter>()
            let store =
                isRestored
                ? try await FluxStore.restored(from: log, initialState: Counter(), dispatcher: nil)
                : FluxStore(initialState: Counter(), dispatcher: nil, log: log)
            store.dispatch(action: .add(1))
            await store.flush()
            return Weak(log)
        }
        for _ in 0..<500 { #expect(try await used().object == nil) }
    }

    @Test func `Recovery applies the logged actions to the snapshot, and revisions continue`() async throws {
        let log = MemoryLog<Log>()
        do {
            let store = FluxStore(initialState: Log(), dispatcher: nil, log: log, compactEvery: 3)
            for number in 1...8 { try await store.dispatch(durably: .add(number)) }
            await store.flush()
        }
        #expect(log.script.calls.values.contains("append"))
        let store = FluxStore(initialState: Log(entries: [-1]), dispatcher: nil, log: log)
        store.dispatch(action: .add(9))
        expect(await store.ready, is: "restored")
        #expect(store.state.entries == Array(1...9))
        #expect(store.revision == 9)
        await store.flush()
        #expect(try await FluxStore.restored(from: log, initialState: Log(), dispatcher: nil).revision == 9)
    }

    @Test func `A log without a snapshot gets one first, so a later initial state does not matter`() async throws {
        let log = MemoryLog<Counter>()
        let store = FluxStore(initialState: Counter(count: 100), dispatcher: nil, log: log)
        try await store.dispatch(durably: .add(1))
        #expect(log.contents.snapshot?.state.count == 101)
        let other = try await FluxStore.restored(from: log, initialState: Counter(count: -5), dispatcher: nil)
        #expect(other.state.count == 101)
    }

    @Test func `Actions that arrive during an append go into the next append`() async throws {
        let log = MemoryLog<Counter>()
        let store = FluxStore(initialState: Counter(), dispatcher: nil, log: log)
        try await store.dispatch(durably: .add(1))
        let gate = Gate()
        log.script.block(until: gate)
        store.dispatch(action: .add(1))
        await log.script.calls.count(3)
        for _ in 0..<500 { store.dispatch(action: .add(1)) }
        gate.open()
        await store.flush()
        #expect(log.batches.values == [1, 500])
        #expect(log.numbers.values == Array(2...502))
        #expect(log.script.overlaps == 0)
    }

    @Test func `Actions from the dispatcher are in the log too`() async throws {
        let (log, dispatcher) = (MemoryLog<Counter>(), FluxDispatcher())
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher, log: log)
        _ = await store.ready
        for _ in 0..<10 { dispatcher.dispatch(action: Counter.Action.add(1)) }
        await store.flush()
        #expect(try await FluxStore.restored(from: log, initialState: Counter(), dispatcher: nil).state.count == 10)
    }

    @Test func `A durable dispatch waits for the load`() async throws {
        let log = MemoryLog<Counter>()
        let gate = Gate()
        log.script.block(until: gate)
        let store = FluxStore(initialState: Counter(), dispatcher: nil, log: log)
        store.dispatch(action: .add(1))
        let durable = Task { try await store.dispatch(durably: .add(1)) }
        await log.script.calls.count(1)
        gate.open()
        #expect(try await durable.value == 2)
        #expect(store.state.count == 2)
    }

    // MARK: - Failures

    @Test func `A failed append is retried in order, and durable dispatches keep waiting for it`() async throws {
        let log = MemoryLog<Counter>()
        let (clock, failures) = (TestClock(), Recorder<FluxPersistenceFailure>())
        let store = FluxStore(
            initialState: Counter(), dispatcher: nil, log: log, backoff: .constant(.seconds(1)), clock: clock,
            onFailure: { failures.record($0) })
        try await store.dispatch(durably: .add(1))
        log.script.refuse(1)
        let first = Task { try await store.dispatch(durably: .add(1)) }
        await clock.sleepers(1)
        let second = Task { try await store.dispatch(durably: .add(1)) }
        clock.advance(by: .seconds(1))
        #expect(try await [first.value, second.value] == [2, 3])
        #expect(failures.values.map(\.operation) == [.append])
        #expect(log.numbers.values == [2, 3])
    }

    @Test func `An append that succeeds but reports a failure adds nothing twice`() async throws {
        let log = MemoryLog<Counter>()
        let store = FluxStore(
            initialState: Counter(), dispatcher: nil, log: log, compactEvery: 3, backoff: .none, onFailure: { _ in })
        _ = await store.ready
        for _ in 0..<20 {
            log.script.refuseAfterwards(1)
            try await store.dispatch(durably: .add(1))
        }
        let recovered = try await FluxStore.restored(from: log, initialState: Counter(), dispatcher: nil)
        #expect(recovered.state.count == 20)
        #expect(recovered.revision == 20)
    }

    @Test(.timeLimit(.minutes(1)))
    func `A snapshot taken after the release of the store has the store's revision`() async throws {
        let (log, gate) = (MemoryLog<Counter>(), Gate())
        try await log.compact(FluxSnapshot(state: Counter(count: 1), number: 10, revision: 1_000))
        do {
            let store = try await FluxStore.restored(
                from: log, initialState: Counter(), dispatcher: nil, compactEvery: 3)
            log.script.block(until: gate)
            for _ in 0..<3 { store.dispatch(action: .add(1)) }
        }
        gate.open()
        while log.contents.snapshot?.number != 13 { await Task.yield() }
        #expect(log.contents.snapshot?.revision == 1_003)
    }

    @Test func `A failed snapshot does not delay a durable dispatch`() async throws {
        let log = MemoryLog<Counter>()
        let failures = Recorder<FluxPersistenceFailure>()
        let store = FluxStore(
            initialState: Counter(), dispatcher: nil, log: log, backoff: .none, onFailure: { failures.record($0) })
        _ = await store.ready
        log.script.refuse(1)
        try await store.dispatch(durably: .add(1))
        #expect(failures.values.map(\.operation) == [.compact])
        #expect(log.contents.entries.map(\.number) == [1])
    }

    @Test func `A log that cannot be read is not written to, and a durable dispatch throws`() async throws {
        let log = MemoryLog<Counter>()
        try await log.append([FluxLogEntry(number: 1, action: .add(5))])
        log.script.refuse(1)
        let store = FluxStore(initialState: Counter(), dispatcher: nil, log: log, onFailure: { _ in })
        expect(await store.ready, is: "failed")
        store.dispatch(action: .add(1))
        let error = await #expect(throws: FluxDurabilityError.self) { try await store.dispatch(durably: .add(1)) }
        guard case .logNotRead(.failed) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        await store.flush()
        #expect(store.state.count == 1, "in memory it goes on, without the action that was refused")
        #expect(log.contents.entries.count == 1)
        #expect(log.contents.snapshot == nil)
    }

    @Test func `A log with a gap is refused`() async throws {
        let log = MemoryLog<Counter>()
        try await log.append((1...5).map { FluxLogEntry(number: $0, action: .add(1)) })
        log.lose(3)
        let error = await #expect(throws: FluxLogGap.self) {
            try await FluxStore.restored(from: log, initialState: Counter(), dispatcher: nil)
        }
        #expect(error?.description == "the log has a gap: action 3 was expected, but 4 was found")
    }

    @Test(arguments: [(.max, 3), (3, .max), (.max / 2 + 1, 3)] as [(UInt64, UInt64)])
    func `A log whose numbers leave no room for the next ones is refused with an error that names them`(
        number: UInt64, revision: UInt64
    ) async throws {
        let log = HostileLog(snapshot: FluxSnapshot(state: Counter(count: 1), number: number, revision: revision))
        let error = await #expect(throws: (any Error).self) {
            let store = try await FluxStore.restored(from: log, initialState: Counter(), dispatcher: nil)
            try await store.dispatch(durably: .add(1))
        }
        let text = "no store has written this log: it counts up to action \(number), revision \(revision)"
        #expect(error.map { "\($0)" } == text)
    }

    @Test func `A log whose last action would exceed the highest revision is refused`() async throws {
        let revision = UInt64.max / 2
        let log = HostileLog(
            snapshot: FluxSnapshot(state: Counter(), number: 1, revision: revision),
            entries: [FluxLogEntry(number: 2, action: .add(1))])
        let error = await #expect(throws: (any Error).self) {
            try await FluxStore.restored(from: log, initialState: Counter(), dispatcher: nil)
        }
        let text = "no store has written this log: it counts up to action 1, revision \(revision)"
        #expect(error.map { "\($0)" } == text)
    }

    @Test func `Releasing the store appends the pending actions`() async throws {
        let log = MemoryLog<Counter>()
        do {
            let store = FluxStore(initialState: Counter(), dispatcher: nil, log: log)
            try await store.dispatch(durably: .add(1))
            for _ in 0..<100 { store.dispatch(action: .add(1)) }
        }
        await log.covered.count(101)
        #expect(log.contents.entries.last?.number == 101)
    }

    @Test func `Releasing the store during an append or a snapshot loses nothing`() async throws {
        for compactEvery in [1, 1_000] {
            let (log, gate) = (MemoryLog<Counter>(), Gate())
            do {
                let store = FluxStore(initialState: Counter(), dispatcher: nil, log: log, compactEvery: compactEvery)
                try await store.dispatch(durably: .add(1))
                log.script.block(until: gate)
                store.dispatch(action: .add(1))
                await log.script.calls.count(3)
                for _ in 0..<10 { store.dispatch(action: .add(1)) }
            }
            gate.open()
            await log.covered.count(12)
            #expect(
                try await FluxStore.restored(from: log, initialState: Counter(), dispatcher: nil).state.count == 12)
        }
    }

    @Test func `A durable dispatch on a store without a log stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let store = FluxStore(initialState: Counter(), dispatcher: nil, persistence: MemoryPersistence<Counter>())
            try await store.dispatch(durably: .add(1))
        }
        let text = result.said
        #expect(text.contains("FluxCore: dispatch(durably:) was used on a store without a log."))
    }

    // MARK: - Backpressure and cancelling

    @Test(.timeLimit(.minutes(5)))
    func `With too many unwritten actions a durable dispatch waits and applies nothing yet`() async throws {
        let log = MemoryLog<Counter>()
        let store = FluxStore(initialState: Counter(), dispatcher: nil, log: log, capacity: 4)
        try await store.dispatch(durably: .add(1))
        let gate = Gate()
        log.script.block(until: gate)
        let running = (0..<50).map { _ in Task { try await store.dispatch(durably: .add(1)) } }
        // Four of them find room.
        while store.state.count < 5 { await Task.yield() }
        for _ in 0..<1_000 { await Task.yield() }
        #expect(store.state.count == 5)
        // A plain dispatch cannot wait, so it is accepted beyond the capacity.
        for _ in 0..<10 { store.dispatch(action: .add(100)) }
        #expect(store.state.count == 1_005)
        gate.open()
        for task in running { _ = try await task.value }
        #expect(store.state.count == 1_051)
        #expect(try await FluxStore.restored(from: log, initialState: Counter(), dispatcher: nil).state.count == 1_051)
    }

    @Test func `A cancelled durable dispatch reports whether its action was applied`() async throws {
        let log = MemoryLog<Counter>()
        let store = FluxStore(initialState: Counter(), dispatcher: nil, log: log, capacity: 1)
        try await store.dispatch(durably: .add(1))
        let gate = Gate()
        log.script.block(until: gate)
        let applied = Task { try await store.dispatch(durably: .add(1)) }
        await log.script.calls.count(3)
        let waiting = (0..<100).map { _ in Task { try await store.dispatch(durably: .add(1)) } }
        waiting.forEach { $0.cancel() }
        for task in waiting {
            let error = await #expect(throws: FluxDurabilityError.self) { try await task.value }
            guard case .cancelled = error else {
                Issue.record("\(String(describing: error))")
                continue
            }
        }
        #expect(store.state.count == 2)
        applied.cancel()
        let error = await #expect(throws: FluxDurabilityError.self) { try await applied.value }
        guard case .unconfirmed(revision: 2) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        gate.open()
        #expect(try await store.dispatch(durably: .add(1)) == 3)
        #expect(try await FluxStore.restored(from: log, initialState: Counter(), dispatcher: nil).state.count == 3)
    }

    @Test func `A durable dispatch that is cancelled while it waits for the load applies nothing`() async throws {
        let log = MemoryLog<Counter>()
        let gate = Gate()
        log.script.block(until: gate)
        let store = FluxStore(initialState: Counter(), dispatcher: nil, log: log)
        let waiting = Task { try await store.dispatch(durably: .add(1)) }
        waiting.cancel()
        await #expect(throws: FluxDurabilityError.self) { try await waiting.value }
        gate.open()
        _ = await store.ready
        #expect(store.state.count == 0)
    }
}

/// Contains what no store has ever written.
private struct HostileLog: FluxLog {
    let snapshot: FluxSnapshot<Counter>
    var entries: [FluxLogEntry<Counter.Action>] = []

    func load() async throws -> FluxLogContents<Counter> { FluxLogContents(snapshot: snapshot, entries: entries) }
    func append(_ entries: [FluxLogEntry<Counter.Action>]) async throws {}
    func compact(_ snapshot: FluxSnapshot<Counter>) async throws {}
}
