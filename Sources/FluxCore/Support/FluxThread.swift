#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Android)
    import Android
#endif

/// What the library knows of one thread.
@usableFromInline
nonisolated struct FluxThread {
    /// The core of the store whose `handle(action:)` runs on this thread at the moment, if any.
    @usableFromInline var handling: UnsafeRawPointer?
    /// Whether what runs is a condition or a rule of the user's own, and `handling` the control of its creator.
    @usableFromInline var isRuling = false
    /// Set by the default implementations of a command, so that what they leave alone is not announced.
    @usableFromInline var changedNothing = false
    /// The task that dispatches an action on this thread at the moment, if any.
    @usableFromInline var sending: UnsafeRawPointer?
    /// The outlet that drains on this thread at the moment, if any.
    @usableFromInline var draining: UnsafeRawPointer?
    /// The event whose action is being dispatched on this thread; 0: none that anybody watches.
    var origin: UInt64 = 0
    /// What came of the dispatch that is under way on this thread, if it took the long way.
    var tally = FluxTally()
    /// Who collects the changes that are made on this thread, if anybody does.
    var report: UnsafeRawPointer?

    @usableFromInline
    init() {}
}

nonisolated extension UnsafeMutablePointer<FluxThread> {
    /// Runs a dispatch that takes the long way, and returns what came of it; what is under way goes on as it was.
    func tally(_ body: () -> Void) -> FluxTally {
        let outer = (pointee.tally, pointee.report)
        (pointee.tally, pointee.report) = (FluxTally(), nil)
        body()
        defer { (pointee.tally, pointee.report) = outer }
        return pointee.tally
    }
}

/// What came of one dispatch.
nonisolated struct FluxTally {
    /// How many stores applied something.
    var applied = 0
    /// How many changes were announced.
    var announced = 0
    /// The revision of the last of them; 0: none.
    var revision: UInt64 = 0

    mutating func add(_ revision: UInt64) {
        applied += 1
        if revision == 0 { return }
        announced += 1
        self.revision = revision
    }
}

/// Finds the record of the calling thread.
///
/// Cores keep a copy in a field of their own, so that the hot path need not ask whether a global was initialised.
@usableFromInline
nonisolated struct FluxThreads: Sendable {
    @usableFromInline static let shared = FluxThreads()

    #if os(Android)
        @usableFromInline typealias Key = pthread_key_t
    #else
        /// A key is below 1,024, and its copy in a core leaves room for other small things.
        @usableFromInline typealias Key = UInt16
    #endif

    @usableFromInline let key: Key

    private init() {
        var key = pthread_key_t()
        let status = pthread_key_create(&key) { record in
            let record: UnsafeMutableRawPointer? = record
            record?.deallocate()
        }
        guard status == 0 else { fatalError("FluxCore: the process has no thread-specific key left (\(status)).") }
        self.key = Key(key)
    }

    @inlinable var current: UnsafeMutablePointer<FluxThread> {
        if let record = pthread_getspecific(pthread_key_t(key)) {
            return record.assumingMemoryBound(to: FluxThread.self)
        }
        return makeRecord()
    }

    @usableFromInline
    func makeRecord() -> UnsafeMutablePointer<FluxThread> {
        let record = UnsafeMutablePointer<FluxThread>.allocate(capacity: 1)
        record.initialize(to: FluxThread())
        pthread_setspecific(pthread_key_t(key), record)
        return record
    }
}

nonisolated extension UnsafeRawPointer {
    /// The address of an object, to compare and never to follow.
    @inlinable
    init(fluxIdentity object: AnyObject) {
        self.init(Unmanaged.passUnretained(object).toOpaque())
    }
}

/// Says that the change of a command that runs on this thread changes nothing.
@usableFromInline
nonisolated func fluxChangeNothing() {
    FluxThreads.shared.current.pointee.changedNothing = true
}

/// Stops the program if `handle(action:)`, or a condition of a rule, runs on the calling thread.
nonisolated func fluxStopInsideHandle(_ call: StaticString) {
    if FluxThreads.shared.current.pointee.handling != nil { fluxStopImpureHandle(call) }
}

/// Stops the program because `handle(action:)`, or a condition of a rule, used a store, a dispatcher or a creator.
@usableFromInline
nonisolated func fluxStopImpureHandle(_ call: StaticString) -> Never {
    if FluxThreads.shared.current.pointee.isRuling {
        fatalError(
            """
            FluxCore: \(call) was used inside a condition of a FluxRule or a FluxRuling. These are pure: they run under \
            the lock of the creator, and may only look at the events they are given.
            """
        )
    }
    fatalError(
        """
        FluxCore: \(call) was used inside FluxState.handle(action:). handle is pure: it runs under the lock of its \
        store and may only change the state. Dispatch from the converter, from a subscription, or after the dispatch \
        that led here has returned.
        """
    )
}
