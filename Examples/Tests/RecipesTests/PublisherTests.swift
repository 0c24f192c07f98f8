import Dispatch
import FluxCore
import Foundation
import OpenCombine
import Testing

/// The library's publisher, with OpenCombine in place of Combine.
@Suite struct PublisherTests {
    struct Count: FluxState {
        enum Action: FluxAction { case add(Int) }
        var count = 0
        mutating func handle(action: Action) -> Count? {
            switch action {
            case .add(let amount): count += amount
            }
            return self
        }
    }

    final class Seen: @unchecked Sendable {
        private let lock = NSLock()
        private var kept: [Int] = []
        let finished = DispatchSemaphore(value: 0)

        func see(_ value: Int) {
            lock.withLock { kept.append(value) }
        }

        var values: [Int] { lock.withLock { kept } }
    }

    @Test func `A sink gets the current state, then each one, and finishes when the store is released`() async {
        var store: FluxStore<Count>? = FluxStore(initialState: Count(), dispatcher: nil)
        let seen = Seen()
        let cancellable = store?.publisher.map(\.count).sink(
            receiveCompletion: { _ in seen.finished.signal() }, receiveValue: { seen.see($0) })
        for _ in 0..<1_000 { store?.dispatch(action: .add(1)) }
        await store?.flush()
        #expect(seen.values == Array(0...1_000))
        store = nil
        #expect(wait(seen.finished))
        withExtendedLifetime(cancellable) {}
    }

    @Test func `A cancelled sink gets no more states`() async {
        let store = FluxStore(initialState: Count(), dispatcher: nil)
        let seen = Seen()
        let cancellable = store.publisher.sink { seen.see($0.count) }
        await store.flush()
        cancellable.cancel()
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(seen.values == [0])
    }

    @Test func `Without demand only the newest state is kept`() async {
        let store = FluxStore(initialState: Count(), dispatcher: nil)
        let seen = Seen()
        let pull = Pull<Count> { seen.see($0.count) }
        store.publisher.subscribe(pull)
        for _ in 0..<100 { store.dispatch(action: .add(1)) }
        await store.flush()
        #expect(seen.values == [])
        pull.request(1)
        #expect(seen.values == [100])
        store.dispatch(action: .add(1))
        store.dispatch(action: .add(1))
        await store.flush()
        pull.request(2)
        #expect(seen.values == [100, 102])
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(seen.values == [100, 102, 103])
        pull.cancel()
    }

    @Test func `States requested on another queue all arrive, even if the first is processed slowly`() async {
        let (store, seen) = (FluxStore(initialState: Count(), dispatcher: nil), Seen())
        let (isTaken, mayGoOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let pull = Pull<Count> { state in
            seen.see(state.count)
            if state.count > 0 { return }
            isTaken.signal()
            mayGoOn.wait()
        }
        store.publisher.subscribe(pull)
        await store.flush()
        DispatchQueue(label: "another").async { pull.request(100) }
        isTaken.wait()
        for _ in 1...150 { store.dispatch(action: .add(1)) }
        await store.flush()
        mayGoOn.signal()
        pull.request(1)
        while seen.values.last != 150 { await Task.yield() }
        #expect(seen.values == Array(0...99) + [150])
    }

    @Test func `A delivered state is not retained, and is released while no lock is held`() async {
        let store = FluxStore(initialState: Room(), dispatcher: nil)
        var guests = (0..<100).map { _ in Weak() }
        let isTaken = DispatchSemaphore(value: 0)
        let mayGoOn = DispatchSemaphore(value: 0)
        let seen = Seen()
        let pull = Pull<Room> { room in
            seen.see(room.count)
            if room.count > 0 { return }
            isTaken.signal()
            mayGoOn.wait()
        }
        let publisher = store.publisher
        publisher.subscribe(pull)
        await store.flush()
        DispatchQueue(label: "another").async { pull.request(1_000) }
        isTaken.wait()
        for index in guests.indices {
            // A guest ends its subscription when it is released.
            let guest = Guest(publisher.sink { _ in })
            guests[index].guest = guest
            store.dispatch(action: .enter(guest))
        }
        store.dispatch(action: .leave)
        await store.flush()
        mayGoOn.signal()
        while seen.values.last != 101 { await Task.yield() }
        await store.flush()
        // The thread that delivered the last value may be about to release what came with it.
        var turns = 0
        while turns < 100_000, guests.contains(where: { $0.guest != nil }) {
            turns += 1
            await Task.yield()
        }
        #expect(guests.allSatisfy { $0.guest == nil })
        pull.cancel()
    }

    struct Room: FluxState {
        enum Action: FluxAction {
            case enter(Guest)
            case leave
        }
        var count = 0
        var guest: Guest?
        mutating func handle(action: Action) -> Room? {
            count += 1
            if case .enter(let new) = action { guest = new } else { guest = nil }
            return self
        }
    }

    /// Watches the room for as long as the guest exists.
    final class Guest: @unchecked Sendable {
        let watching: AnyCancellable
        init(_ watching: AnyCancellable) { self.watching = watching }
    }

    struct Weak { weak var guest: Guest? }

    private func wait(_ semaphore: DispatchSemaphore) -> Bool {
        semaphore.wait(timeout: .now() + 60) == .success
    }

    /// Requests values only when the test calls `request`.
    final class Pull<Input>: Subscriber, @unchecked Sendable {
        typealias Failure = Never
        private var subscription: (any Subscription)?
        private let see: (Input) -> Void

        init(_ see: @escaping (Input) -> Void) {
            self.see = see
        }

        func receive(subscription: any Subscription) {
            self.subscription = subscription
        }

        func receive(_ input: Input) -> Subscribers.Demand {
            see(input)
            return .none
        }

        func receive(completion: Subscribers.Completion<Never>) {}

        func request(_ count: Int) {
            subscription?.request(.max(count))
        }

        func cancel() {
            subscription?.cancel()
        }
    }
}
