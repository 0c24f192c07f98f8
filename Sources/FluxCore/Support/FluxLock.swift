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

/// The one lock of the library: a value that can be reached under a mutex only.
///
/// It guards pure state machines. Nothing that belongs to a user runs under it except `FluxState.handle(action:)`.
///
/// With `-D FLUX_TSAN` it is a pthread mutex, which ThreadSanitizer understands: `Synchronization.Mutex` on Linux is a
/// futex that the sanitizer does not see, so that it reports races where there are none.
@usableFromInline
nonisolated struct FluxLock<Value>: ~Copyable, @unchecked Sendable {
    #if FLUX_TSAN
        @usableFromInline let mutex: UnsafeMutablePointer<pthread_mutex_t>
        @usableFromInline let value: UnsafeMutablePointer<Value>

        @inlinable
        init(_ initialValue: consuming Value) {
            mutex = .allocate(capacity: 1)
            pthread_mutex_init(mutex, nil)
            value = .allocate(capacity: 1)
            value.initialize(to: initialValue)
        }

        @inlinable
        deinit {
            value.deinitialize(count: 1)
            value.deallocate()
            pthread_mutex_destroy(mutex)
            mutex.deallocate()
        }

        @inlinable
        borrowing func withLock<Result>(_ body: (inout Value) -> Result) -> Result {
            pthread_mutex_lock(mutex)
            defer { pthread_mutex_unlock(mutex) }
            return body(&value.pointee)
        }

        borrowing func withLockIfAvailable<Result>(_ body: (inout Value) -> Result) -> Result? {
            guard pthread_mutex_trylock(mutex) == 0 else { return nil }
            defer { pthread_mutex_unlock(mutex) }
            return body(&value.pointee)
        }
    #else
        @usableFromInline let mutex: Synchronization.Mutex<FluxGuarded<Value>>

        @inlinable
        init(_ initialValue: consuming Value) {
            mutex = Synchronization.Mutex(FluxGuarded(initialValue))
        }

        /// Runs a closure on the value, with the lock held.
        ///
        /// Inlined by force: a dispatch costs little more than the two atomic operations in here.
        @inlinable @inline(__always)
        borrowing func withLock<Result>(_ body: (inout Value) -> Result) -> Result {
            mutex.withLock { guarded in FluxGuarded(body(&guarded.value)) }.value
        }

        /// Runs a closure on the value if no other thread has the lock at the moment; nil if one has.
        borrowing func withLockIfAvailable<Result>(_ body: (inout Value) -> Result) -> Result? {
            mutex.withLockIfAvailable { guarded in FluxGuarded(body(&guarded.value)) }?.value
        }
    #endif
}

/// A value that is safe to pass between threads because a ``FluxLock`` or a role that only one thread has guards it.
@usableFromInline
nonisolated struct FluxGuarded<Value>: @unchecked Sendable {
    @usableFromInline var value: Value

    @inlinable
    init(_ value: consuming Value) {
        self.value = value
    }
}
