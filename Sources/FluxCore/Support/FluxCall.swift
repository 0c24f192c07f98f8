/// A closure that is borrowed and not copied where it is called: to retain what it captured costs more than many a call.
@usableFromInline
nonisolated struct FluxCall<Argument>: ~Copyable, Sendable {
    @usableFromInline let call: @Sendable (Argument) -> Void

    @inlinable
    init(_ call: @escaping @Sendable (Argument) -> Void) {
        self.call = call
    }

    @inlinable @inline(__always)
    borrowing func callAsFunction(_ argument: Argument) {
        call(argument)
    }
}
