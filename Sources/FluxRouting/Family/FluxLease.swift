#if canImport(FluxCore)
    import FluxCore
#endif

/// Keeps a member of a ``FluxFamily`` open until it is released or let go of.
///
/// ```swift
/// let lease = try await rooms.lease("r1")
/// lease.member.dispatch(action: .bid(7))
/// lease.release()
/// ```
///
/// Keep it in a property, or release it by hand: one that is only assigned to a local constant ends at its last use.
///
/// Thread safety: all of it may be used from any thread.
nonisolated public final class FluxLease<Member: Sendable>: Sendable {
    /// The member; once the lease is released it may be put away at any time, and another be made in its place.
    public var member: Member { kept.member.withLock { $0! } }
    private let kept: FluxLeased<Member>
    private let releasing: @Sendable () -> Void
    private let isReleased = FluxLock(false)

    init(_ member: Member, _ releasing: @escaping @Sendable () -> Void) {
        (kept, self.releasing) = (FluxLeased(member), releasing)
    }

    deinit {
        let isFirst = isFirstRelease()
        // It may be let go of in a `handle(action:)`. The member goes first, for another may be made at once then.
        FluxPureCode.after { [kept, releasing] in
            kept.letGo()
            if isFirst { releasing() }
        }
    }

    /// Ends the lease: the member is put away once nobody has used it for as long as the family says.
    ///
    /// A second call does nothing.
    ///
    /// - Complexity: O(1).
    public func release() { if isFirstRelease() { FluxPureCode.after(releasing) } }

    private func isFirstRelease() -> Bool { !isReleased.withLock { Swift.exchange(&$0, with: true) } }
}

/// The member of a lease, which goes before that is known to be over.
nonisolated private final class FluxLeased<Member: Sendable>: Sendable {
    /// Nil once the lease was let go of.
    let member: FluxLock<Member?>

    init(_ member: Member) { self.member = FluxLock(member) }

    func letGo() {
        var gone: Member?
        // Outside the lock, and before this returns.
        member.withLock { swap(&$0, &gone) }
        gone = nil
    }
}
