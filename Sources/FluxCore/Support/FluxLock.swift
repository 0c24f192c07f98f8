import Synchronization

#if FLUX_TSAN
    import Dispatch
#endif

/// A value that can be reached only while its lock is held: the one lock type of the library and its modules.
///
/// It guards small state machines. Calls to other code (a handler, a wake, a user's `deinit`) come after the
/// unlock. It is not recursive. Wrap a closure that is kept in the value in a struct: in a tuple or an `Optional`, a
/// closure gains another thunk at each use.
///
/// ```swift
/// let counts = FluxLock([String: Int]())
/// counts.withLock { $0["milk", default: 0] += 1 }
/// ```
///
/// On systems other than Apple's, a thread that finds the lock taken checks again, at most a thousand times, before it
/// queues for the mutex. The mutex is handed to the thread that has waited longest. If more threads than there are
/// cores use it again and again, each use would put one thread to sleep and wake another, and take a thousand times as
/// long. The price: a thread may overtake one that has waited longer, and the closure is compiled in twice.
///
/// With `-D FLUX_TSAN`, a semaphore is taken before the mutex. ThreadSanitizer understands the semaphore. It does not
/// see how a thread waits for a `Synchronization.Mutex` on Linux, and would report races where there are none.
///
/// Thread safety: all of it may be used from any thread.
nonisolated public struct FluxLock<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
    @usableFromInline let mutex: Synchronization.Mutex<FluxGuarded<Value>>
    #if FLUX_TSAN
        @usableFromInline let semaphore = DispatchSemaphore(value: 1)
    #endif

    /// Creates a lock around a value.
    ///
    /// - Parameter value: The value. Parts of it that are not `Sendable` must not be used elsewhere any more.
    @inlinable public init(_ value: consuming sending Value) { mutex = Synchronization.Mutex(FluxGuarded(value)) }

    // Always inlined: a dispatch costs little more than the two atomic operations in here.
    /// Runs a closure on the value while holding the lock.
    ///
    /// - Parameter body: Receives the value. It must not use this lock. It must not bring in or pass out anything that
    ///   is not `Sendable`; the compiler does not check this.
    /// - Returns: What the closure returns.
    @inlinable @inline(__always) public borrowing func withLock<Result>(_ body: (inout Value) -> Result) -> Result {
        #if FLUX_TSAN
            semaphore.wait()
            defer { semaphore.signal() }
        #endif
        #if !canImport(Darwin)
            if let result = mutex.withLockIfAvailable({ FluxGuarded(body(&$0.value)) }) { return result.value }
            fluxAwaitTurn { mutex.withLockIfAvailable({ _ in }) != nil }
        #endif
        return mutex.withLock { guarded in FluxGuarded(body(&guarded.value)) }.value
    }
}

/// A value that is safe to pass between threads, because a ``FluxLock`` or a role that only one thread has guards it.
@usableFromInline nonisolated struct FluxGuarded<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
    @usableFromInline var value: Value

    @inlinable init(_ value: consuming Value) { self.value = value }
}

// Copyable if the value is: Swift 6.3.1 loses track of a noncopyable wrapper around plain numbers, and crashes.
nonisolated extension FluxGuarded: Copyable where Value: Copyable {}
