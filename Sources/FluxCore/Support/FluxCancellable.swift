/// What a token ends: by itself, nothing.
///
/// A class, since a protocol would make every token 16 bytes larger. Safe to be sent: it has nothing of its own, and what those have
/// that it is made into is theirs to guard.
@usableFromInline nonisolated class FluxCancellable: @unchecked Sendable {
    @usableFromInline init() {}

    @usableFromInline func cancel() {}

    /// Waits until its last call is over; it has been cancelled.
    @usableFromInline func finish() async {}

    /// How many elements it was not handed because there was no room for them.
    @usableFromInline var dropped: Int { 0 }
}

/// What is ended by closures.
nonisolated final class FluxCancelling: FluxCancellable, @unchecked Sendable {
    private let cancelling: @Sendable () -> Void
    private let finishing: @Sendable () async -> Void
    private let counting: @Sendable () -> Int

    init(
        cancelling: @escaping @Sendable () -> Void, finishing: @escaping @Sendable () async -> Void,
        counting: @escaping @Sendable () -> Int
    ) { (self.cancelling, self.finishing, self.counting) = (cancelling, finishing, counting) }

    override func cancel() { cancelling() }

    override func finish() async { await finishing() }

    override var dropped: Int { counting() }
}
