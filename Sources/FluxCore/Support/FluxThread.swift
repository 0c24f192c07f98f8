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
    /// The outlet that drains on this thread at the moment, if any.
    @usableFromInline var draining: UnsafeRawPointer?

    @inlinable
    init() {}
}

/// Finds the record of the calling thread.
///
/// Cores keep a copy in a field of their own, so that the hot path need not ask whether a global was initialised.
@usableFromInline
nonisolated struct FluxThreads: Sendable {
    @usableFromInline static let shared = FluxThreads()

    /// The key, in two bytes rather than four or eight: systems have about a thousand, and each core has a copy.
    @usableFromInline let key: UInt16

    private init() {
        var key = pthread_key_t()
        let status = pthread_key_create(&key) { record in
            let record: UnsafeMutableRawPointer? = record
            record?.deallocate()
        }
        guard status == 0 else { fatalError("FluxCore: the process has no thread-specific key left (\(status)).") }
        guard let key = UInt16(exactly: key) else { fatalError("FluxCore: a thread-specific key of \(key).") }
        self.key = key
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

/// Stops the program because `handle(action:)` used a store or a dispatcher.
@usableFromInline
nonisolated func fluxStopImpureHandle(_ call: StaticString) -> Never {
    fatalError(
        """
        FluxCore: \(call) was used inside FluxState.handle(action:). handle is pure: it runs under the lock of its \
        store and may only change the state. Dispatch from the converter, from a subscription, or after the dispatch \
        that led here has returned.
        """
    )
}
