import Dispatch
import FluxCore
import FluxObservation
import Observation
import TestSupport

/// Every kind of subscription, for suites that expect the same of each.
enum Watching: CaseIterable, Sendable {
    case every, latest, newest, oldest, failing, selector, oldAndNew, anyOf, mainQueue
    case states, everyState, newestStates, failingStates, values, everyValue
    case view, viewStates, viewOfView, part, mirror

    /// Whether it gets every change; the others may skip some.
    var isLossless: Bool {
        switch self {
        case .every, .newest, .oldest, .failing, .selector, .oldAndNew, .anyOf: true
        case .mainQueue: true
        case .everyState, .newestStates, .failingStates, .everyValue: true
        case .latest, .states, .values, .view, .viewStates, .viewOfView, .part, .mirror: false
        }
    }

    /// Whether it can start with the current count.
    var startsWithCurrent: Bool { ![.oldAndNew, .anyOf].contains(self) }

    /// Whether its handler is called on a queue that nothing else in the test uses, and so may block.
    var mayBlock: Bool {
        switch self {
        case .mainQueue, .mirror: false
        case .states, .everyState, .newestStates, .failingStates, .values, .everyValue, .viewStates: false
        default: true
        }
    }

    /// Whether it keeps the store.
    var keepsStore: Bool {
        switch self {
        case .states, .everyState, .newestStates, .failingStates, .values, .everyValue, .viewStates, .mirror: true
        default: false
        }
    }

    /// Calls a closure with the counts of a store, starting with the current one where possible.
    func watch(_ store: FluxStore<Counter>, _ see: @escaping @Sendable (Int) -> Void) async -> Watch {
        let room = 1 << 20
        switch self {
        case .every: return Watch(store.subscribe(startingWithCurrent: true) { see($0.count) })
        case .latest: return Watch(store.subscribe(.latest, startingWithCurrent: true) { see($0.count) })
        case .newest:
            return Watch(store.subscribe(.buffered(newest: room), startingWithCurrent: true) { see($0.count) })
        case .oldest:
            return Watch(store.subscribe(.buffered(oldest: room), startingWithCurrent: true) { see($0.count) })
        case .failing:
            return Watch(
                store.subscribe(failingAfter: room, startingWithCurrent: true) { result in
                    if case .success(let state) = result { see(state.count) }
                })
        case .selector: return Watch(store.subscribe(to: \.count, startingWithCurrent: true) { see($0) })
        case .oldAndNew:
            return Watch(
                store.subscribe(to: \.count) { old, new in
                    see(old < new ? new : -1)
                })
        case .anyOf:
            return Watch(
                store.subscribe(toAnyOf: \.count, \.disorder) { state, changed in
                    see(changed == [\.count] ? state.count : -1)
                })
        case .mainQueue:
            return Watch(
                store.subscribe(on: .main, startingWithCurrent: true) { state in
                    MainActor.preconditionIsolated()
                    see(state.count)
                })
        case .states: return Watch(store.states) { see($0.count) }
        case .everyState: return Watch(store.states(.every)) { see($0.count) }
        case .newestStates: return Watch(store.states(.buffered(newest: room))) { see($0.count) }
        case .failingStates: return Watch(store.states(failingAfter: room)) { see($0.count) }
        case .values: return Watch(store.values(of: \.count), see)
        case .everyValue: return Watch(store.values(of: \.count, .every), see)
        case .view:
            let view = FluxView(store, store) { one, other in one.count == other.count ? one.count : -1 }
            return Watch(view.subscribe(startingWithCurrent: true, see), keeping: view)
        case .viewStates:
            let view = FluxView(store) { $0.count }
            return Watch(view.states, keeping: view, see)
        case .viewOfView:
            let view = FluxView(store) { $0.count }.view { $0 * 2 }
            return Watch(view.subscribe(.latest, startingWithCurrent: true) { see($0 / 2) }, keeping: view)
        case .part:
            let view = store.view(\.count)
            return Watch(view.subscribe(to: { $0 }, startingWithCurrent: true) { see($0) }, keeping: view)
        case .mirror: return await Watch.mirror(store, see)
        }
    }
}

/// A subscription of any kind, which a test can end.
final class Watch: Sendable {
    private let token: Locked<(any Sendable)?>
    private let kept: Locked<(any Sendable)?>
    private let task: Task<Void, Never>?
    /// Opens when a sequence has ended by itself or by its task.
    let finished = Gate()

    init(_ token: any Sendable, keeping kept: (any Sendable)? = nil) {
        self.token = Locked(token)
        self.kept = Locked(kept)
        task = nil
    }

    init<Element, Failure>(
        _ states: FluxStates<Element, Failure>, keeping kept: (any Sendable)? = nil,
        _ see: @escaping @Sendable (Element) -> Void
    ) {
        token = Locked(nil)
        self.kept = Locked(kept)
        let started = states.makeAsyncIterator()
        nonisolated(unsafe) let first = started
        task = Task { [finished] in
            var iterator = first
            while let state = try? await iterator.next() { see(state) }
            finished.open()
        }
    }

    /// Ends the subscription, and waits until a sequence has ended.
    func end() async {
        // `unsubscribe()` alone is not enough: a call that another thread had decided on might still start.
        await token.withLock { $0 as? FluxSubscription }?.finish()
        (token.withLock { $0 as? Mirroring })?.end()
        letGo()
        task?.cancel()
        if task != nil { await finished.opened() }
    }

    private func letGo() {
        let gone = (token.withLock { $0.take() }, kept.withLock { $0.take() })
        withExtendedLifetime(gone) {}
    }

    /// Releases a view, which would keep the store.
    func letGoOfView() {
        let gone = kept.withLock { $0.take() }
        withExtendedLifetime(gone) {}
    }

    @MainActor
    static func mirror(_ store: FluxStore<Counter>, _ see: @escaping @Sendable (Int) -> Void) -> Watch {
        Watch(Mirroring(store.observed(), see))
    }
}

/// Reads a mirror each time that observation reports a change.
final class Mirroring: Sendable {
    private let hasEnded = Flag()

    @MainActor
    init(_ mirror: FluxObserved<Counter>, _ see: @escaping @Sendable (Int) -> Void) {
        Self.track(mirror, hasEnded, see)
    }

    func end() {
        hasEnded.set()
    }

    deinit {
        end()
    }

    @MainActor
    private static func track(
        _ mirror: FluxObserved<Counter>, _ hasEnded: Flag, _ see: @escaping @Sendable (Int) -> Void,
        after last: Locked<Int>? = nil
    ) {
        if hasEnded.isSet { return }
        let last = last ?? Locked(-1)
        let count = withObservationTracking {
            mirror.state.count
        } onChange: {
            // Called before the change, so the value is read in the next turn.
            Task { @MainActor in track(mirror, hasEnded, see, after: last) }
        }
        if last.current == count { return }
        last.withLock { $0 = count }
        see(count)
    }
}
