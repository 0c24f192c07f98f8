/// Converts events, whose types it alone knows.
@usableFromInline
nonisolated protocol FluxConverting: AnyObject, Sendable {
    /// Whether it converts asynchronously.
    var isAsync: Bool { get }
    /// Begins to convert what a task has loaded.
    ///
    /// - Parameters:
    ///   - task: The task, which has started; retained for the callee, who has to release it.
    ///   - spare: What the last call has left for the next, on the same thread, so that it need not be made again. An
    ///     asynchronous one finds the executor of the queue here, if that is not the creator's own.
    func begin(_ task: Unmanaged<FluxTask>, _ spare: inout AnyObject?)
    /// Tells whoever listens of an error that ended an event before its conversion had begun.
    func report(_ error: any Error, on event: any Sendable)
}

/// Reads a value whose type is known out of a box that does not say it: no cast, which would be slow.
@inlinable
@inline(__always)
nonisolated func fluxRead<Value>(_ box: some Any, as type: Value.Type) -> Value {
    withUnsafePointer(to: box) { UnsafeRawPointer($0).assumingMemoryBound(to: Value.self).pointee }
}

/// An event for the rules, without its type.
nonisolated struct FluxAnyEvent: FluxEvent {
    let event: any Sendable
}
