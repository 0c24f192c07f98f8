import Dispatch
import FluxCore
import FluxDiagnostics

/// Records what one store applies, and the events of creators that send to it.
///
/// The store retains the watch, so the inspector does not have to retain the store.
final class StoreWatch<State: FluxState>: FluxStoreObserver, EventWatch {
    private struct Look {
        /// The number of inspections: a store may be inspected directly and through its dispatcher.
        var holders = 0
        /// The last announced state; nil while the store is not inspected.
        var announced: (any FluxState)?
        /// When the current change began.
        var start: DispatchTime?
    }

    let recorder: Recorder
    let source: Source
    private let id: Int
    private let handle: FluxStoreHandle<State>
    /// Acquired after the store's lock.
    private let look = FluxLock(Look())

    private init(_ handle: FluxStoreHandle<State>, _ recorder: Recorder) {
        (self.handle, self.recorder) = (handle, recorder)
        id = recorder.makeStoreID()
        source = .store(id)
    }

    /// Returns the only watch of a store for a recorder, and counts one more user, even while inspection is off.
    static func watch(of handle: FluxStoreHandle<State>, for recorder: Recorder) -> StoreWatch {
        handle.feature(StoreWatches.self) { StoreWatches() }.all.withLock { all in
            let kept = all[ObjectIdentifier(recorder)]
            let watch = kept?.watch as? StoreWatch ?? StoreWatch(handle, recorder)
            all[ObjectIdentifier(recorder)] = (watch, (kept?.users ?? 0) + 1)
            return watch
        }
    }

    /// Returns the existing watch of a store for a recorder; nil: it has been released with the store.
    static func existing(of handle: FluxStoreHandle<State>, for recorder: Recorder) -> StoreWatch? {
        handle.featureIfAny(StoreWatches.self)?.all.withLock { $0[ObjectIdentifier(recorder)]?.watch } as? StoreWatch
    }

    /// Removes one user; after the last one, the store no longer has a watch for the recorder.
    func forget() {
        let last = handle.featureIfAny(StoreWatches.self)?.all.withLock { all in
            let key = ObjectIdentifier(recorder)
            all[key]?.users -= 1
            return all[key]?.users == 0 ? all.removeValue(forKey: key) : nil
        }
        // Released outside that lock.
        withExtendedLifetime(last) {}
    }

    /// Begins one more inspection of the store.
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

    /// Ends one inspection of the store; the last one removes the recorded rows.
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
        // Replacing a state runs no code and has no duration. A reaction that changed nothing has left its start here.
        let start: DispatchTime? = if case .replaced = change { nil } else { .now() }
        look.withLock { $0.start = start }
    }

    func applied(_ change: FluxChange<State>, _ state: State, revision: UInt64?) -> (any FluxSettling)? {
        let end = DispatchTime.now()
        // An unannounced state is not kept: it would be copied for each change. It shows with the next announced one.
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

    /// Removes the rows of the store, which has ended.
    func ending(_ finish: @escaping @Sendable () -> Void) -> Bool {
        let last = look.withLock { look in
            defer { look.announced = nil }
            return look.announced
        }
        recorder.close(id, lettingGo: last)
        return false
    }
}

/// The watches of one store, by recorder, with their numbers of users: its feature for inspection.
final class StoreWatches: Sendable {
    let all = FluxLock<[ObjectIdentifier: (watch: any AnyObject & Sendable, users: Int)]>([:])
}

/// Watches a dispatcher's stores as they are attached and detached, and records the events of creators that send there.
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

    /// Passes the action on: the watch is an interceptor for the events alone.
    func dispatch(_ action: any FluxAction, on dispatcher: FluxDispatcher, next: FluxNext) -> Int { next(action) }
}

/// Records events; called with no lock held, so rows that are dropped for them may be released at once.
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
