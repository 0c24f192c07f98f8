import FluxCore
import FluxPersistence
import TestSupport
import Testing

/// At the end of a load, actions held back and actions applied at once keep one order, and none is lost.
@Suite struct EndOfTheLoadTests {
    /// C1, C3: Threads continue to dispatch while the load ends.
    @Test(arguments: [false, true])
    func `Actions of a thread keep their order across the end of a load`(withLog: Bool) async throws {
        for round in 0..<40 {
            let (dispatcher, gate) = (FluxDispatcher(), Gate())
            let persistence = MemoryPersistence<Counter>(Counter(count: 1_000_000))
            let log = MemoryLog<Counter>()
            (withLog ? log.script : persistence.script).block(until: gate)
            let store =
                withLog
                ? FluxStore(initialState: Counter(count: 1_000_000), dispatcher: dispatcher, log: log, compactEvery: 50)
                : FluxStore(initialState: Counter(), dispatcher: dispatcher, persistence: persistence)
            await onThreads(4) { index in
                for number in 1...100 {
                    let action = Counter.Action.mark(producer: index, number: number)
                    if index == 0 && number == 1 + round * 2 { gate.open() }
                    if index.isMultiple(of: 2) {
                        store.dispatch(action: action)
                    } else {
                        dispatcher.dispatch(action: action)
                    }
                }
            }
            await store.flush()
            #expect(store.state.count == 1_000_400)
            #expect(store.state.disorder == 0)
            if withLog {
                let recovered = try await FluxStore.restored(from: log, initialState: Counter(), dispatcher: nil)
                #expect(recovered.state.count == 1_000_400)
                #expect(recovered.state.disorder == 0)
                #expect(recovered.revision == store.revision)
            } else {
                #expect(persistence.current?.count == 1_000_400)
            }
        }
    }

    /// C4: Two stores of one dispatcher apply its actions in the same order, although one is still loading.
    @Test func `A loading store and one without a load apply actions in the same order`() async {
        for _ in 0..<20 {
            let (dispatcher, gate) = (FluxDispatcher(), Gate())
            let persistence = MemoryPersistence<Log>()
            persistence.script.block(until: gate)
            let plain = FluxStore(initialState: Log(), dispatcher: dispatcher)
            let kept = FluxStore(initialState: Log(), dispatcher: dispatcher, persistence: persistence)
            await onThreads(3) { index in
                if index == 2 { return gate.open() }
                for number in 1...200 {
                    dispatcher.dispatch(action: Counter.Action.mark(producer: index, number: number))
                }
            }
            _ = await kept.ready
            #expect(plain.state.entries == kept.state.entries)
            #expect(kept.state.entries.count == 400)
        }
    }

    /// C5: The subscriptions of a loading store get the loaded state and every revision after it.
    @Test func `Subscriptions miss and repeat nothing across the end of a load`() async {
        for _ in 0..<20 {
            let gate = Gate()
            let persistence = MemoryPersistence(Counter())
            persistence.script.block(until: gate)
            let store = FluxStore(initialState: Counter(), dispatcher: nil, persistence: persistence)
            let seen = Recorder<Int>()
            let token = store.subscribe { seen.record($0.count) }
            await onThreads(2) { index in
                if index == 1 { return gate.open() }
                for _ in 0..<100 { store.dispatch(action: .add(1)) }
            }
            await store.flush()
            #expect(seen.values == Array(0...100))
            withExtendedLifetime(token) {}
        }
    }

    /// The load's answer and its timeout arrive at the same moment: one of them counts, and nothing is lost.
    @Test func `If a load ends just at its timeout, one of the two counts and no action is lost`() async {
        for _ in 0..<100 {
            let (gate, clock) = (Gate(), TestClock())
            let persistence = MemoryPersistence(Counter(count: 1_000))
            persistence.script.block(until: gate)
            let store = FluxStore(
                initialState: Counter(), dispatcher: nil, persistence: persistence, loadTimeout: .seconds(1),
                clock: clock, onFailure: { _ in })
            store.dispatch(action: .add(1))
            await clock.sleepers(1)
            await onThreads(2) { index in
                if index == 0 { gate.open() } else { clock.advance(by: .seconds(1)) }
            }
            let restoration = await store.ready
            store.dispatch(action: .add(1))
            switch restoration {
            case .restored: #expect(store.state.count == 1_002)
            case .timedOut: #expect(store.state.count == 2)
            default: Issue.record("\(restoration)")
            }
        }
    }

    /// Durable callers, plain callers and failures at the same time: what was acknowledged is in the log.
    @Test func `Every acknowledged action is recovered, whatever fails meanwhile`() async throws {
        let log = MemoryLog<Counter>()
        let store = FluxStore(
            initialState: Counter(), dispatcher: nil, log: log, compactEvery: 40, capacity: 8, backoff: .none,
            onFailure: { _ in })
        try await withThrowingTaskGroup(of: Void.self) { group in
            for producer in 0..<16 {
                group.addTask {
                    for number in 1...50 {
                        if number % 10 == 0 { log.script.refuse(1) }
                        if number % 15 == 0 { log.script.refuseAfterwards(1) }
                        let action = Counter.Action.mark(producer: producer, number: number)
                        if number % 7 == 0 {
                            store.dispatch(action: action)
                        } else {
                            try await store.dispatch(durably: action)
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        log.script.refuse(0)
        log.script.refuseAfterwards(0)
        await store.flush()
        let recovered = try await FluxStore.restored(from: log, initialState: Counter(), dispatcher: nil)
        #expect(recovered.state.count == 800)
        #expect(recovered.state.disorder == 0)
        #expect(log.script.overlaps == 0)
    }

    /// The log completes at once, possibly before the caller has begun to wait.
    @Test func `A durable dispatch does not wait for a write that has already ended`() async throws {
        let store = FluxStore(initialState: Counter(), dispatcher: nil, log: QuickLog())
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<64 {
                group.addTask { for _ in 0..<500 { try await store.dispatch(durably: .add(1)) } }
            }
            try await group.waitForAll()
        }
        #expect(store.state.count == 32_000)
    }

    /// Too many durable callers, some cancelled as the load ends: none hangs, and none reported as not applied was.
    @Test func `A durable dispatch cancelled as the load ends reports whether it was applied`() async throws {
        for round in 0..<40 {
            let (log, gate) = (MemoryLog<Counter>(), Gate())
            log.script.block(until: gate)
            let store = FluxStore(initialState: Counter(), dispatcher: nil, log: log, capacity: 3)
            store.dispatch(action: .add(1_000))
            let callers = (0..<20).map { _ in Task { try await store.dispatch(durably: .add(1)) } }
            for _ in 0..<round { await Task.yield() }
            await onThreads(2) { index in
                if index == 0 { gate.open() } else { for caller in callers[..<10] { caller.cancel() } }
            }
            var applied = 0
            for (index, caller) in callers.enumerated() {
                do {
                    _ = try await caller.value
                    applied += 1
                } catch FluxDurabilityError.unconfirmed {
                    applied += 1
                    #expect(index < 10)
                } catch FluxDurabilityError.cancelled {
                    #expect(index < 10)
                }
            }
            #expect(store.state.count == 1_000 + applied)
            await store.flush()
            let recovered = try await FluxStore.restored(from: log, initialState: Counter(), dispatcher: nil)
            #expect(recovered.state.count == store.state.count)
        }
    }

    /// When the log turns out to be unreadable, every caller that waits for room is notified, however many there are.
    @Test func `Every durable dispatch that waits for the load throws if the load fails`() async {
        let (log, gate) = (MemoryLog<Counter>(), Gate())
        log.script.block(until: gate)
        log.script.refuse(1)
        let store = FluxStore(initialState: Counter(), dispatcher: nil, log: log, capacity: 1, onFailure: { _ in })
        let callers = (0..<20).map { _ in Task { try await store.dispatch(durably: .add(1)) } }
        for _ in 0..<100 { await Task.yield() }
        gate.open()
        for caller in callers {
            let error = await #expect(throws: FluxDurabilityError.self) { try await caller.value }
            guard case .logNotRead(.failed) = error else {
                Issue.record("\(String(describing: error))")
                continue
            }
        }
        #expect(store.state.count == 0)
    }

    struct QuickLog: FluxLog {
        func load() async throws -> FluxLogContents<Counter> { FluxLogContents() }
        func append(_ entries: [FluxLogEntry<Counter.Action>]) async throws {}
        func compact(_ snapshot: FluxSnapshot<Counter>) async throws {}
    }
}
