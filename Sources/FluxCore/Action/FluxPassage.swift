/// What an action leaves to be told once no lock is held; whom to wake is apart, which spares the hot path 5 ns.
@usableFromInline
nonisolated struct FluxPassage {
    /// What came of it in the last store, which refers to the one before; kept only if somebody watches.
    @usableFromInline var note: FluxNote?
    /// Where to note the first store; nil: nobody watches, and no notes are kept.
    @usableFromInline var watch: UnsafeMutablePointer<FluxWatch>?

    @inlinable
    init() {}

    /// Wakes and tells, with no lock held.
    ///
    /// - Parameters:
    ///   - wakes: Whom to wake.
    ///   - chain: The hooks of the dispatcher, if they are to be told.
    @inlinable @inline(__always)
    func finish(_ wakes: FluxWakes<FluxWake>, _ chain: FluxChain? = nil) {
        wakes.forEach { $0.wake() }
        if note != nil { tell(chain) }
    }

    @usableFromInline
    func tell(_ chain: FluxChain?) {
        if let note, note.previous == nil { return note.tell(chain) }
        var notes: ContiguousArray<FluxNote> = []
        var last = note
        while let note = last {
            notes.append(note)
            last = note.previous
        }
        for note in notes.reversed() { note.tell(chain) }
    }
}

nonisolated extension FluxWakes<FluxWake> {
    @inlinable @inline(__always)
    mutating func append<State>(_ outlet: FluxOutlet<State>) {
        append(FluxWake(outlet) { unsafeDowncast($0, to: FluxOutlet<State>.self).wake() })
    }
}

/// What a watched dispatch wants to know, with room for the first store, which most often is the only one.
///
/// It lies on the stack of the dispatch: to make a ``FluxNote`` costs as much as all the rest.
@usableFromInline
nonisolated struct FluxWatch {
    /// Whether to keep, in a note, the state as the action left it.
    @usableFromInline let wantsStates: Bool
    /// Whether the first store may be noted here: what it applied is what was dispatched.
    @usableFromInline var hasRoom: Bool
    private var first: (store: FluxStoreInfo, revision: UInt64, duration: UInt64)?

    init(hasRoom: Bool = false, wantsStates: Bool = false) {
        (self.hasRoom, self.wantsStates) = (hasRoom, wantsStates)
    }

    /// Notes the first store; the revision is 0 where there was nothing to announce.
    @usableFromInline
    mutating func note(_ store: consuming FluxStoreInfo, revision: UInt64, duration: UInt64) {
        hasRoom = false
        first = (store, revision, duration)
    }

    @inline(__always)
    mutating func tell(_ action: any FluxAction, _ chain: FluxChain) {
        guard let first = fluxTake(&first) else { return }
        let revision = first.revision == 0 ? nil : first.revision
        chain.tellApplied(action, to: first.store, revision: revision, in: first.duration)
    }
}

/// What came of an action in one store; an object, because it is large and handed on a few times.
@usableFromInline
nonisolated final class FluxNote {
    let action: any FluxAction
    let store: FluxStoreInfo
    /// 0: there was nothing to announce.
    let revision: UInt64
    let duration: UInt64
    let state: (any FluxState)?
    /// The hooks of the store.
    let chain: FluxChain?
    let previous: FluxNote?

    @usableFromInline
    init(
        action: any FluxAction, store: FluxStoreInfo, revision: UInt64, duration: UInt64,
        state: (any FluxState)?, chain: FluxChain?, previous: FluxNote?
    ) {
        self.action = action
        self.store = store
        self.revision = revision
        self.duration = duration
        self.state = state
        self.chain = chain
        self.previous = previous
    }

    func tell(_ outer: FluxChain?) {
        let announced = revision == 0 ? nil : revision
        outer?.tellApplied(action, to: store, revision: announced, in: duration)
        chain?.tellApplied(action, to: store, revision: announced, in: duration)
        guard let state, let report = FluxThreads.shared.current.pointee.report else { return }
        FluxReport.at(report).add(FluxChange(store: store, revision: revision, state: state))
    }
}
