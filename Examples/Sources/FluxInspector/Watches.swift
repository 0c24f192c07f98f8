import Dispatch
import FluxCore
import FluxDiagnostics

/// Notes what one store applies, and the events of creators that send to it.
///
/// The store has it, so that who inspects need not keep the store.
final class StoreWatch<State: FluxState>: FluxStoreObserver, EventWatch {
    private struct Look {
        /// How many inspect the store: it may be shown by itself and by way of its dispatcher.
        var holders = 0
        /// The state that was announced last; nil while nobody looks.
        var announced: (any FluxState)?
        /// When the change at hand began.
        var start: DispatchTime?
    }

    let recorder: Recorder
    let source: Source
    private let id: Int
    private let handle: FluxStoreHandle<State>
    /// Locked after the store.
    private let look = FluxLock(Look())

    private init(_ handle: FluxStoreHandle<State>, _ recorder: Recorder) {
        (self.handle, self.recorder) = (handle, recorder)
        id = recorder.makeStoreID()
        source = .store(id)
    }

    /// The one watch that a store has for a recorder, for one more who inspects the store, also while that is off.
    static func watch(of handle: FluxStoreHandle<State>, for recorder: Recorder) -> StoreWatch {
        handle.feature(StoreWatches.self) { StoreWatches() }.all.withLock { all in
            let kept = all[ObjectIdentifier(recorder)]
            let watch = kept?.watch as? StoreWatch ?? StoreWatch(handle, recorder)
            all[ObjectIdentifier(recorder)] = (watch, (kept?.users ?? 0) + 1)
            return watch
        }
    }

    /// The watch that one who inspects the store was given; nil: it has gone with the store.
    static func existing(of handle: FluxStoreHandle<State>, for recorder: Recorder) -> StoreWatch? {
        handle.featureIfAny(StoreWatches.self)?.all.withLock { $0[ObjectIdentifier(recorder)]?.watch } as? StoreWatch
    }

    /// One less inspects the store: with the last the store has nothing of the recorder's any more.
    func forget() {
        let last = handle.featureIfAny(StoreWatches.self)?.all.withLock { all in
            let key = ObjectIdentifier(recorder)
            all[key]?.users -= 1
            return all[key]?.users == 0 ? all.removeValue(forKey: key) : nil
        }
        // It goes outside of that lock.
        withExtendedLifetime(last) {}
    }

    /// Begins for one more who inspects the store.
    func begin(name: String?, dispatcher: String? = nil) {
        let store = OpenStore(info: FluxStoreInfo(handle), name: name, dispatcher: dispatcher)
        handle.withAccess { access in
            let isFirst = look.withLock { look in
                look.holders += 1
                if look.holders == 1 { look.announced = access.state }
                return look.holders == 1
            }
            if isFirst { access.observe(self) }
            recorder.open(id, store, revision: access.revision)
        }
    }

    /// Ends for one of those who inspect the store, and with the last forgets what was noted.
    func end() {
        handle.withAccess { access in
            let last: (any FluxState)? = look.withLock { look in
                look.holders -= 1
                if look.holders > 0 { return nil }
                defer { look.announced = nil }
                return look.announced
            }
            guard let last else { return }
            access.remove(self)
            recorder.close(id, lettingGo: last)
        }
    }

    // MARK: - FluxStoreObserver

    func applying(_ change: FluxChange<State>) {
        // To put another state in the place of one takes no time of anybody's. What changed nothing has left its start.
        let start: DispatchTime? = if case .replaced = change { nil } else { .now() }
        look.withLock { $0.start = start }
    }

    func applied(_ change: FluxChange<State>, _ state: State, revision: UInt64?) -> (any FluxSettling)? {
        let end = DispatchTime.now()
        // A state that changes in silence is not kept: it would be copied for each change, and shows with the next that is
        // announced.
        let after: (any FluxState)? = revision == nil ? nil : state
        let (before, start) = look.withLock { look in
            let noted = (look.announced, look.start)
            look.start = nil
            if after != nil { look.announced = after }
            return noted
        }
        let applied = Applied(
            action: change.action, kind: Applied.Kind(change), revision: revision,
            nanoseconds: start.map { end.uptimeNanoseconds - $0.uptimeNanoseconds },
            states: before.flatMap { before in after.map { (before, $0) } })
        return recorder.note(.applied(applied), source, origin: FluxOrigin.current?.id)
    }

    /// The store has gone, and with it all that is its.
    func ending(_ finish: @escaping @Sendable () -> Void) -> Bool {
        let last = look.withLock { look in
            defer { look.announced = nil }
            return look.announced
        }
        recorder.close(id, lettingGo: last)
        return false
    }
}

/// The watches of one store, by their recorder, and for how many: what the store has for those who inspect it.
final class StoreWatches: Sendable {
    let all = FluxLock<[ObjectIdentifier: (watch: any AnyObject & Sendable, users: Int)]>([:])
}

/// Looks on at the stores of one dispatcher as they come and go, and notes the events of creators that send there.
final class DispatcherWatch: FluxDispatcherObserver, FluxDispatchInterceptor, EventWatch {
    let recorder: Recorder
    let source: Source
    private let name: String?

    init(_ recorder: Recorder, name: String?) {
        (self.recorder, self.name, source) = (recorder, name, .dispatcher(name))
    }

    func attached<State>(_ handle: FluxStoreHandle<State>) {
        StoreWatch.watch(of: handle, for: recorder).begin(name: nil, dispatcher: name)
    }

    func detached<State>(_ handle: FluxStoreHandle<State>) {
        let watch = StoreWatch.existing(of: handle, for: recorder)
        watch?.end()
        watch?.forget()
    }

    /// It is here for the events alone.
    func dispatch(_ action: any FluxAction, on dispatcher: FluxDispatcher, next: FluxNext) -> Int { next(action) }
}

/// Notes events; called with no lock held, so that what is forgotten for them may go at once.
protocol EventWatch: FluxEventObserver {
    var recorder: Recorder { get }
    var source: Source { get }
}

extension EventWatch {
    func fired(_ event: any FluxEvent, _ task: FluxTask) {
        _ = recorder.note(.fired(event), source, origin: task.id)
    }

    func retried(_ event: any FluxEvent, attempt: Int, _ error: any Error, _ task: FluxTask) {
        _ = recorder.note(.retried(event, attempt: attempt, error), source, origin: task.id)
    }

    func ended(_ event: any FluxEvent, _ outcome: FluxTask.Outcome, _ task: FluxTask) {
        _ = recorder.note(.ended(event, outcome), source, origin: task.id)
    }
}
