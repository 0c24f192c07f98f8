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
    public var member: Member { kept.withLock { $0! } }
    /// Nil once this has been let go of.
    private let kept: FluxLock<Member?>
    private let releasing: @Sendable () -> Void
    private let isReleased = FluxLock(false)

    init(_ member: Member, _ releasing: @escaping @Sendable () -> Void) {
        self.releasing = releasing
        kept = FluxLock(member)
    }

    deinit {
        // First, outside the lock: the next one may be made at once, and no two are there together.
        var member: Member?
        kept.withLock { swap(&$0, &member) }
        member = nil
        release()
    }

    /// Ends the lease: the member is put away once nobody has used it for as long as the family says.
    ///
    /// A second call does nothing.
    ///
    /// - Complexity: O(1).
    public func release() {
        let isFirst = isReleased.withLock { isReleased in
            defer { isReleased = true }
            return !isReleased
        }
        // It may be let go of in a `handle(action:)`.
        if isFirst { FluxPureCode.after(releasing) }
    }
}
