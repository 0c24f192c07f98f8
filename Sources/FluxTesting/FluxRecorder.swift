#if canImport(FluxCore)
    import FluxCore
#endif

/// Records elements in order, and lets a test wait for a number of them.
///
/// ```swift
/// let changes = FluxRecorder.changes(of: store)
/// creator.fire(.load)
/// await changes.count(2)
/// #expect(changes.elements.map(\.state.isLoading) == [true, false])
/// ```
///
/// Thread safety: all of it may be used from any thread, also as the handler of a subscription.
nonisolated public final class FluxRecorder<Element: Sendable>: FluxSettling {
    private struct Machine {
        var elements: [Element] = []
        var counts = FluxCounts()
    }

    private let lock = FluxLock(Machine())

    /// Creates a recorder for what is passed to ``record(_:)``.
    public init() {}

    /// The elements recorded so far.
    ///
    /// - Complexity: O(1); while the array is kept, the next element costs O(*n*) for *n* elements.
    public var elements: [Element] { lock.withLock { $0.elements } }

    /// Records an element.
    ///
    /// - Parameter element: The element.
    public func record(_ element: Element) {
        add(element)
        settle()
    }

    /// Waits until the recorder has a number of elements, or the task is cancelled.
    ///
    /// - Parameter count: The number.
    public func count(_ count: Int) async {
        await FluxLatch.wait { latch in
            lock.withLock { $0.counts.wait(for: count, of: $0.elements.count, latch) }
        } withdrawing: { latch in
            _ = lock.withLock { $0.counts.withdraw(latch) }
        }
    }

    /// Waits for a number of elements within a time limit, so that a test fails instead of hanging.
    ///
    /// - Parameters:
    ///   - count: The number.
    ///   - limit: The time limit, by the continuous clock.
    /// - Throws: ``FluxTestTimeout``, which says what there is instead; also if the task is cancelled.
    public func count(_ count: Int, within limit: Swift.Duration) async throws(FluxTestTimeout) {
        try await FluxTestTimeout.wait(for: count, "elements", within: limit) {
            await self.count(count)
            return self.elements.count >= count
        } there: {
            self.elements
        }
    }

    /// Wakes the tasks that wait for no more elements than there are.
    public func settle() {
        for latch in lock.withLock({ $0.counts.tell($0.elements.count) }) { latch.open() }
    }

    fileprivate func add(_ element: Element) { lock.withLock { $0.elements.append(element) } }
}

/// A change of a store as it was applied.
///
/// Thread safety: a value.
nonisolated public struct FluxRecordedChange<State: FluxState>: Sendable {
    /// The change that was applied.
    public let change: FluxChange<State>
    /// The state after the change.
    public let state: State
    /// The revision of the change; nil if it was not announced.
    public let revision: UInt64?

    /// The action, if the change is an action of the state's own type; can be compared with `==` if it is `Equatable`.
    public var action: State.Action? { if case .action(let action) = change { action } else { nil } }
}

nonisolated extension FluxRecorder {
    /// Records the changes of a store from now on, announced or not.
    ///
    /// - Parameter store: The store.
    /// - Returns: The recorder, which the store keeps in memory.
    public static func changes<State>(
        of store: FluxStore<State>
    ) -> FluxRecorder where Element == FluxRecordedChange<State> {
        let recorder = FluxRecorder()
        store.handle.withAccess { $0.observe(FluxRecordingObserver(recorder: recorder), settlesFirst: true) }
        return recorder
    }

    /// Records the actions that are dispatched to a dispatcher from now on, each before any store receives it.
    ///
    /// To check the state after an action, await the ``changes(of:)`` of a store.
    ///
    /// - Parameters:
    ///   - dispatcher: The dispatcher.
    ///   - priority: The recorder's place among the interceptors: those of a higher priority receive an action before
    ///     it.
    /// - Returns: The recorder, which the dispatcher keeps in memory.
    public static func actions(
        of dispatcher: FluxDispatcher, priority: Int = 0
    ) -> FluxRecorder where Element == any FluxAction {
        let recorder = FluxRecorder()
        dispatcher.add(FluxRecordingInterceptor(recorder: recorder), priority: priority)
        return recorder
    }
}

nonisolated private final class FluxRecordingObserver<State: FluxState>: FluxStoreObserver {
    let recorder: FluxRecorder<FluxRecordedChange<State>>

    init(recorder: FluxRecorder<FluxRecordedChange<State>>) { self.recorder = recorder }

    func applied(_ change: FluxChange<State>, _ state: State, revision: UInt64?) -> (any FluxSettling)? {
        recorder.add(FluxRecordedChange(change: change, state: state, revision: revision))
        return recorder
    }
}

nonisolated private struct FluxRecordingInterceptor: FluxDispatchInterceptor {
    let recorder: FluxRecorder<any FluxAction>

    func dispatch(_ action: any FluxAction, on dispatcher: FluxDispatcher, next: FluxNext) -> Int {
        recorder.record(action)
        return next(action)
    }
}
