// The continuation of an iterator that waits. An unsafe one is safe here: whoever takes it out of the channel, with the lock held,
// resumes it; and a latch of the core, which would do that too, is an object for each wait and takes two locks more.
#if FLUX_TSAN
    // The sanitizer would see the `resume()` of an unsafe one read the memory of a task that goes on.
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
