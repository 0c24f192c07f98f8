import Synchronization

#if FLUX_TSAN
    import Dispatch
#endif

/// A value that is reached with a lock held only: the one lock of the library and of the modules on it.
///
/// It guards small state machines. Whatever calls out (a handler, a wake, a `deinit` of the user's) comes after the unlock.
/// It is not recursive. Wrap closures that are kept in the value in a struct of their own: one in a tuple or an `Optional`
/// grows a chain of thunks at each use.
///
/// ```swift
/// let counts = FluxLock([String: Int]())
/// counts.withLock { $0["milk", default: 0] += 1 }
/// ```
///
/// Everywhere but on Apple's systems a thread that finds it taken looks again, a thousand times at most, before it stands in the line
/// of the mutex, which is handed on to who has waited longest: where more threads than there are cores use it again and again, each
/// use would put one to sleep and wake another, and take a thousand times as long. So one may come before another that has waited
/// longer; and what it runs is compiled in twice.
///
/// With `-D FLUX_TSAN` a semaphore stands before the mutex. ThreadSanitizer understands that; the way on which a
/// `Synchronization.Mutex` is waited for on Linux it does not see, so that it reports races where there are none.
///
/// Thread safety: all of it may be used from any thread.
nonisolated public struct FluxLock<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
    @usableFromInline let mutex: Synchronization.Mutex<FluxGuarded<Value>>
    #if FLUX_TSAN
        @usableFromInline let semaphore = DispatchSemaphore(value: 1)
    #endif

    /// Makes a lock around a value.
    ///
    /// - Parameter value: The value; nobody else may go on using what is not `Sendable` in it.
    @inlinable public init(_ value: consuming sending Value) { mutex = Synchronization.Mutex(FluxGuarded(value)) }

    // Inlined by force: a dispatch costs little more than the two atomic operations in here.
    /// Runs a closure on the value, with the lock held.
    ///
    /// - Parameter body: Gets the value; must not use this lock, nor take in or hand out what is not `Sendable`, which the compiler
    ///   does not check.
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

/// A value that is safe to pass between threads because a ``FluxLock``, or a role that only one thread has, guards it.
@usableFromInline nonisolated struct FluxGuarded<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
    @usableFromInline var value: Value

    @inlinable init(_ value: consuming Value) { self.value = value }
}

// Copied where the value can be: Swift 6.3.1 loses sight of one that cannot, where that is of plain numbers, and stops.
nonisolated extension FluxGuarded: Copyable where Value: Copyable {}
