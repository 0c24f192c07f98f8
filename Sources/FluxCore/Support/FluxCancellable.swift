/// What a token ends; on its own, this base class ends nothing.
///
/// A class, because a protocol would make every token 16 bytes larger. Safe to send: it has no state, and each subclass
/// guards its own.
@usableFromInline nonisolated class FluxCancellable: @unchecked Sendable {
    @usableFromInline init() {}

    @usableFromInline func cancel() {}

    /// Waits until the last call is over; called after `cancel()`.
    @usableFromInline func finish() async {}

    /// How many elements were not delivered because there was no room for them.
    @usableFromInline var dropped: Int { 0 }
}

/// Ends by calling closures.
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
