#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#endif

/// A token that one system thread waits for until another thread gives it.
final class Baton: @unchecked Sendable {
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private var isThere = false

    init() {
        pthread_mutex_init(mutex, nil)
        pthread_cond_init(condition, nil)
    }

    func give() {
        pthread_mutex_lock(mutex)
        isThere = true
        pthread_mutex_unlock(mutex)
        pthread_cond_signal(condition)
    }

    func wait() {
        pthread_mutex_lock(mutex)
        while !isThere { pthread_cond_wait(condition, mutex) }
        isThere = false
        pthread_mutex_unlock(mutex)
    }

    /// Waits at most this number of seconds; returns false if the baton was not given.
    func wait(seconds: Int) -> Bool {
        var end = timespec()
        clock_gettime(CLOCK_REALTIME, &end)
        end.tv_sec += seconds
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while !isThere {
            if pthread_cond_timedwait(condition, mutex, &end) != 0 { return false }
        }
        isThere = false
        return true
    }
}
