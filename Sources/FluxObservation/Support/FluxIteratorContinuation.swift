// The continuation of a waiting iterator. An unsafe one is safe here: the thread that takes it out of the
// channel, with the lock held, resumes it. A latch of the core would also do, but is an object for each
// wait and takes two more locks.
#if FLUX_TSAN
    // The sanitizer would see the `resume()` of an unsafe one read the memory of a task that is running again.
    typealias FluxIteratorContinuation<Taken> = _Concurrency.CheckedContinuation<Taken, Never>
    nonisolated func fluxSuspendIterator<Taken: Sendable>(
        _ body: (FluxIteratorContinuation<Taken>) -> Void
    ) async -> Taken {
        await withCheckedContinuation(body)
    }
#else
    typealias FluxIteratorContinuation<Taken> = _Concurrency.UnsafeContinuation<Taken, Never>
    @inline(__always) nonisolated func fluxSuspendIterator<Taken: Sendable>(
        _ body: (FluxIteratorContinuation<Taken>) -> Void
    ) async -> Taken {
        await withUnsafeContinuation(body)
    }
#endif
