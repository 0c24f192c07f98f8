import FluxCore
import TestSupport
import Testing

@testable import FluxTesting

/// The recorder that users test with.
@Suite struct FluxRecorderTests {
    @Test func `A recorder records the changes of a store, announced or not`() {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        store.dispatch(action: .add(1))
        let changes = FluxRecorder.changes(of: store)
        store.dispatch(action: .add(2))
        store.dispatch(action: .addSilently(3))
        #expect(changes.elements.map(\.state.count) == [3, 6])
        #expect(changes.elements.map(\.revision) == [2, nil])
        guard case .action(.addSilently(3)) = changes.elements[1].change else {
            Issue.record("\(changes.elements[1])")
            return
        }
    }

    @Test func `Several events of a recorded store still share one conversion`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let changes = FluxRecorder.changes(of: store)
        var ends = 0
        for await event in FluxActionCreator<CounterConverter>(store: store).fire([.add(1), .add(2)]).events {
            if case .ended = event { ends += 1 }
        }
        #expect(ends == 1 && changes.elements.map(\.state.count) == [1, 3])
    }

    @Test func `A recorder records the actions of a dispatcher, whether or not a store handles them`() {
        struct LogOut: FluxAction {}
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let actions = FluxRecorder.actions(of: dispatcher)
        #expect(dispatcher.dispatch(action: Counter.Action.add(1)) == 1)
        #expect(dispatcher.dispatch(action: LogOut()) == 0)
        #expect(actions.elements.count == 2)
        #expect(actions.elements.first is Counter.Action && actions.elements.last is LogOut)
        #expect(store.state.count == 1)
    }

    @Test func `A recorder records an action before interceptors of lower priority get it`() {
        struct Looking: FluxDispatchInterceptor {
            let actions: [FluxRecorder<any FluxAction>]
            let found = FluxRecorder<[Int]>()
            func dispatch(_ action: any FluxAction, on dispatcher: FluxDispatcher, next: FluxNext) -> Int {
                found.record(actions.map(\.elements.count))
                return next(action)
            }
        }
        struct LogOut: FluxAction {}
        let dispatcher = FluxDispatcher()
        let looking = Looking(actions: [-1, 1].map { FluxRecorder.actions(of: dispatcher, priority: $0) })
        dispatcher.add(looking, priority: 0)
        dispatcher.dispatch(action: LogOut())
        #expect(looking.found.elements == [[0, 1]])
    }

    @Test func `A withdrawn wait is not notified, and leaves nothing behind`() {
        var counts = FluxCounts()
        let latches = (0..<3).map { _ in FluxLatch() }
        for latch in latches { #expect(counts.wait(for: 2, of: 1, latch) === latch) }
        #expect(counts.withdraw(latches[1]) && !counts.withdraw(latches[1]))
        #expect(counts.tell(1).isEmpty && counts.tell(2).count == 2)
    }

    @Test func `A wait of zero or negative time succeeds if the elements are there`() async throws {
        let recorder = FluxRecorder<Int>()
        recorder.record(1)
        for _ in 0..<500 { try await recorder.count(1, within: .zero) }
        try await recorder.count(1, within: .seconds(Int64.min))
    }

    @Test func `A test can wait for a number of elements`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let (changes, states) = (FluxRecorder.changes(of: store), FluxRecorder<Int>())
        let token = store.subscribe { states.record($0.count) }
        await onThreads(2) { _ in for _ in 0..<100 { store.dispatch(action: .add(1)) } }
        await changes.count(200)
        await states.count(200)
        #expect(states.elements == Array(1...200))
        #expect(changes.elements.map(\.state.count) == states.elements)
        let waiting = Task { await states.count(201) }
        waiting.cancel()
        await waiting.value
        token.unsubscribe()
    }

    @Test func `A wait that times out reports what is there instead`() async throws {
        let (recorder, clock) = (FluxRecorder<Int>(), FluxTestClock())
        func message(_ body: () async throws(FluxTestTimeout) -> Void) async -> String? {
            do { try await body() } catch { return "\(error)" }
            return nil
        }
        recorder.record(7)
        #expect(await message { () throws(FluxTestTimeout) in try await recorder.count(1, within: .zero) } == nil)
        #expect(
            await message { () throws(FluxTestTimeout) in try await recorder.count(2, within: .milliseconds(1)) }
                == "elements: 2 awaited for 0.001 seconds, 1 there, 7")
        for element in 1...9 { recorder.record(element) }
        #expect(
            await message { () throws(FluxTestTimeout) in try await recorder.count(11, within: .zero) }
                == "elements: 11 awaited for 0.0 seconds, 10 there, 7, 1, 2, 3, 4, 5, 6, 7, 8, 9")
        for element in 9..<20 { recorder.record(element) }
        #expect(
            await message { () throws(FluxTestTimeout) in try await recorder.count(22, within: .zero) }
                == "elements: 22 awaited for 0.0 seconds, 21 there, the newest of them 10, 11, 12, 13, 14, 15, 16, 17, 18, 19"
        )
        #expect(
            await message { () throws(FluxTestTimeout) in try await clock.sleepers(1, within: .zero) }
                == "sleepers: 1 awaited for 0.0 seconds, 0 there")
        let sleeping = Task { try await clock.sleep(for: .seconds(3)) }
        try await clock.sleepers(1, within: .seconds(3_600))
        #expect(
            await message { () throws(FluxTestTimeout) in try await clock.sleepers(2, within: .zero) }
                == "sleepers: 2 awaited for 0.0 seconds, 1 there, until 3.0 seconds")
        let later = Task { try await clock.sleep(for: .seconds(4)) }
        await clock.sleepers(2)
        #expect(
            await message { () throws(FluxTestTimeout) in try await clock.sleepers(3, within: .zero) }
                == "sleepers: 3 awaited for 0.0 seconds, 2 there, until 3.0 seconds, until 4.0 seconds")
        for task in [sleeping, later] { task.cancel() }
        let waiting = Task { try await recorder.count(100, within: .seconds(Int64.max)) }
        waiting.cancel()
        await #expect(throws: FluxTestTimeout.self) { try await waiting.value }
    }

    @Test func `A change is compared with an action of its state`() {
        struct Light: FluxState {
            enum Action: FluxAction, Equatable { case on, off }
            func handle(action: Action) -> Light? { self }
        }
        struct Night: FluxAction {}
        let store = FluxStore(initialState: Light(), dispatcher: nil)
        let changes = FluxRecorder.changes(of: store)
        store.dispatch(action: .on)
        store.handle.withAccess { _ = $0.replace(with: Light(), by: Night()) }
        store.dispatch(action: .off)
        #expect(changes.elements.map(\.action) == [.on, nil, .off])
    }

    @Test(.timeLimit(.minutes(1))) func `Each of several waiting tasks resumes with the element that it waits for`()
        async
    {
        let (recorder, counts) = (FluxRecorder<Int>(), [3, 1, 2, 4, 2, 1])
        // In a group, so that the time limit ends the waits as well.
        await withTaskGroup(of: Int.self) { group in
            for count in counts {
                group.addTask {
                    await recorder.count(count)
                    return recorder.elements.count - count
                }
            }
            for _ in 0..<100 { await Task.yield() }
            for element in 1...4 {
                recorder.record(element)
                for count in counts where count == element { #expect(await group.next() == 0) }
            }
        }
    }
}
