import Synchronization
import Workbench

/// An actor that yields its states into streams.
actor ActorStore {
    private(set) var state = Sample()
    private var continuations: [AsyncStream<Sample>.Continuation] = []

    /// Returns all states from now on; the stream keeps those that have not been taken yet.
    func states() -> AsyncStream<Sample> {
        let (stream, continuation) = AsyncStream.makeStream(of: Sample.self, bufferingPolicy: .unbounded)
        continuations.append(continuation)
        return stream
    }

    /// The count, for the main thread.
    nonisolated var count: Int {
        let count = Atomic<Int>(0)
        blocking { count.store(await self.state.count, ordering: .relaxed) }
        return count.load(ordering: .relaxed)
    }

    func dispatch(_ action: Sample.Action) {
        state.apply(action)
        for continuation in continuations { continuation.yield(state) }
    }
}
