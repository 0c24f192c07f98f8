import Synchronization

#if FLUX_TSAN
    #if canImport(Darwin)
        import Darwin
    #elseif canImport(Glibc)
        import Glibc
    #elseif canImport(Musl)
        import Musl
    #elseif canImport(Android)
        import Android
    #endif
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
/// With `-D FLUX_TSAN` it is a pthread mutex, which ThreadSanitizer understands: `Synchronization.Mutex` on Linux is a
/// futex that the sanitizer does not see, so that it reports races where there are none.
///
/// Thread safety: all of it may be used from any thread.
nonisolated public struct FluxLock<Value>: ~Copyable, @unchecked Sendable {
    #if FLUX_TSAN
        @usableFromInline let mutex: UnsafeMutablePointer<pthread_mutex_t>
        @usableFromInline let value: UnsafeMutablePointer<Value>

        /// Makes a lock around a value.
        ///
        /// - Parameter initialValue: The value.
        @inlinable public init(_ initialValue: consuming Value) {
            mutex = .allocate(capacity: 1)
            pthread_mutex_init(mutex, nil)
            value = .allocate(capacity: 1)
            value.initialize(to: initialValue)
        }

        @inlinable deinit {
            value.deinitialize(count: 1)
            value.deallocate()
            pthread_mutex_destroy(mutex)
            mutex.deallocate()
        }

        /// Runs a closure on the value, with the lock held.
        ///
        /// - Parameter body: Gets the value; must not use this lock.
        /// - Returns: What the closure returns.
        @inlinable public borrowing func withLock<Result>(_ body: (inout Value) -> Result) -> Result {
            pthread_mutex_lock(mutex)
            defer { pthread_mutex_unlock(mutex) }
            return body(&value.pointee)
        }
    #else
        @usableFromInline let mutex: Synchronization.Mutex<FluxGuarded<Value>>

        /// Makes a lock around a value.
        ///
        /// - Parameter initialValue: The value.
        @inlinable public init(_ initialValue: consuming Value) {
            mutex = Synchronization.Mutex(FluxGuarded(initialValue))
        }

        // Inlined by force: a dispatch costs little more than the two atomic operations in here.
        /// Runs a closure on the value, with the lock held.
        ///
        /// - Parameter body: Gets the value; must not use this lock.
        /// - Returns: What the closure returns.
        @inlinable @inline(__always) public borrowing func withLock<Result>(_ body: (inout Value) -> Result) -> Result {
            mutex.withLock { guarded in FluxGuarded(body(&guarded.value)) }.value
        }
    #endif
}

nonisolated extension FluxLock {
    /// The value, which is made on first use, under the lock.
    func value<Made>(_ make: () -> Made) -> Made where Value == Made? {
        withLock { value in
            let known = value ?? make()
            value = known
            return known
        }
    }
}

/// A value that is safe to pass between threads because a ``FluxLock``, or a role that only one thread has, guards it.
@usableFromInline nonisolated struct FluxGuarded<Value>: @unchecked Sendable {
    @usableFromInline var value: Value

    @inlinable init(_ value: consuming Value) { self.value = value }
}
