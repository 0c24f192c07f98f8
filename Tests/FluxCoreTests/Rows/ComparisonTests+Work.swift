import FluxCore
import Testing

/// The rows that are about work, about what is kept, and about watching more than one thing.
extension ComparisonTests {
    // MARK: - Work

    @Test func `Rules`() async {
        let store = log()
        let site = WorkConverter.Site { $0 == 1 }
        let creator = FluxActionCreator<WorkConverter>(
            dependency: site, dispatcher: dispatcher,
            rules: [.unique(cancelling: .earlier, for: FluxRule.caseName)])
        let (first, second) = (creator.fire(.add(1)), creator.fire(.add(2)))
        #expect(await [first.outcome.name, second.outcome.name] == ["cancelled", "completed"])
        site.gate(1).open()
        #expect(store.state.entries == [2])
    }

    @Test func `Retry`() async {
        let site = WorkConverter.Site()
        let creator = FluxActionCreator<WorkConverter>(
            dependency: site, dispatcher: dispatcher,
            rules: [.retry(limit: 2)], onFailure: { _, _ in })
        #expect(await creator.fire(.fail(0)).outcome.name == "failed")
        #expect(site.attempts.values == [0, 0, 0])
    }

    @Test func `Life-cycle events`() async {
        let store = log()
        let creator = FluxActionCreator<CounterConverter>(dispatcher: dispatcher)
        var steps: [String] = []
        for await step in creator.fire(.add(1)).events { steps.append(step.name) }
        #expect(steps == ["started", "sent", "completed"])
        #expect(store.state.entries == [1])
    }

    @Test func `Awaiting and cancelling`() async {
        let store = log()
        let hold = HandlerHold<Counter.Action>()
        let creator = FluxActionCreator<CounterConverter>(dispatcher: dispatcher)
        let task = creator.fire(.hold(hold))
        await hold.isKept.opened()
        task.cancel()
        hold.send(.add(1))
        #expect(await task.outcome.name == "cancelled")
        #expect(await creator.fire(.add(2)).outcome.name == "completed")
        #expect(store.state.entries == [2])
        hold.letGo()
    }

    // MARK: - Watching

    @Test func `Key paths`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let (counts, changes) = (Recorder<Int>(), Recorder<Int>())
        let tokens = [
            store.subscribe(to: \.count) { counts.record($0) },
            store.subscribe(toAnyOf: \.count, \.marks) { _, changed in changes.record(changed.count) },
        ]
        dispatcher.add(1)
        dispatcher.add(0)
        store.dispatch(action: .mark(producer: 1, number: 1))
        await store.flush()
        #expect(counts.values == [1, 2])
        #expect(changes.values == [1, 2])
        withExtendedLifetime(tokens) {}
    }

    @Test func `Observable conversion`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let seen = Recorder<Int>()
        let disposable = store.observable.subscribe { seen.record($0.count) }
        dispatcher.add(1)
        await store.flush()
        disposable.dispose()
        dispatcher.add(1)
        await store.flush()
        #expect(seen.values == [0, 1])
        for await state in store.states {
            #expect(state.count == 2)
            break
        }
        #if canImport(Combine)
            _ = store.publisher
        #endif
    }

    @Test func `Aggregation over stores`() async {
        let (cart, prices) = (log(), FluxStore(initialState: Counter(), dispatcher: dispatcher))
        let total = FluxView(cart, prices) { cart, prices in cart.entries.count * prices.count }
        let seen = Recorder<Int>()
        let token = total.subscribe { seen.record($0) }
        dispatcher.add(3)
        await seen.count(1)
        #expect(seen.values == [3] && total.state == 3)
        token.unsubscribe()
    }

    // MARK: - What is kept

    @Test func `Offline support`() async throws {
        let folder = Folder()
        let file = {
            FluxFile<Log>(path: folder.state) { log in
                log.entries.map(UInt8.init)
            } decode: { bytes in
                Log(entries: bytes.map(Int.init))
            }
        }
        do {
            let store = FluxStore(initialState: Log(), dispatcher: dispatcher, persistence: file())
            dispatcher.add(7)
            await store.flush()
        }
        let store = FluxStore(initialState: Log(), dispatcher: dispatcher, persistence: file())
        dispatcher.add(8)
        guard case .restored = await store.ready else {
            Issue.record("nothing was restored")
            return
        }
        #expect(store.state.entries == [7, 8])
        // The folder goes with the test.
        await store.flush()
    }
}

// MARK: - The recipe for RxSwift, with the least that it needs of that

extension FluxSource {
    fileprivate var observable: Observable<State> {
        Observable.create { observer in
            let subscription = subscribe(startingWithCurrent: true) { observer.onNext($0) }
            return Disposables.create { subscription.unsubscribe() }
        }
    }
}

private struct Observable<Element: Sendable> {
    struct Observer: Sendable {
        let onNext: @Sendable (Element) -> Void
    }

    let body: (Observer) -> Disposables

    static func create(_ body: @escaping (Observer) -> Disposables) -> Observable { Observable(body: body) }

    func subscribe(_ onNext: @escaping @Sendable (Element) -> Void) -> Disposables { body(Observer(onNext: onNext)) }
}

private struct Disposables {
    let dispose: () -> Void

    static func create(_ dispose: @escaping () -> Void) -> Disposables { Disposables(dispose: dispose) }
}
