nonisolated extension FluxTask {
    /// The life of a task as a sequence; any number of iterators, each from the start.
    ///
    /// Thread safety: the sequence may be shared; an iterator belongs to one task.
    public struct Events: AsyncSequence, Sendable {
        let task: FluxTask

        /// Begins at the start of the life, whenever that was.
        public func makeAsyncIterator() -> Iterator { Iterator(task: task) }

        /// Walks through the life of a task.
        ///
        /// Thread safety: belongs to one task at a time.
        public struct Iterator: AsyncIteratorProtocol {
            let task: FluxTask
            var cursor = FluxTask.Machine.Cursor()

            init(task: FluxTask) {
                self.task = task
            }

            /// The next event; nil after the end of the work, and when the calling task is cancelled.
            public mutating func next() async -> LifeEvent? {
                while !_Concurrency.Task.isCancelled {
                    let latch = FluxLatch()
                    switch task.look(after: &cursor, else: latch) {
                    case .event(let event): return event
                    case .over: return nil
                    case .wait: await latch.wait()
                    }
                }
                return nil
            }
        }
    }
}
