#if canImport(FluxCore)
    import FluxCore
#endif

/// Keeps a member of a ``FluxFamily`` open until ``release()`` is called or the lease is deallocated.
///
/// ```swift
/// let lease = try await rooms.lease("r1")
/// lease.member.dispatch(action: .bid(7))
/// lease.release()
/// ```
///
/// Keep the lease in a property, or release it by hand: a lease that is only assigned to a local constant ends at its
/// last use.
///
/// Thread safety: all of it may be used from any thread.
nonisolated public final class FluxLease<Member: Sendable>: Sendable {
    /// The member; once the lease is released, it may be evicted at any time and another one created in its place.
    public var member: Member { kept.member.withLock { $0! } }
    private let kept: FluxLeased<Member>
    private let releasing: @Sendable () -> Void
    private let isReleased = FluxLock(false)

    init(_ member: Member, _ releasing: @escaping @Sendable () -> Void) {
        (kept, self.releasing) = (FluxLeased(member), releasing)
    }

    deinit {
        let isFirst = isFirstRelease()
        // The lease may be deallocated inside `handle(action:)`. The member is released first, because `releasing` may
        // let the family create another one at once.
        FluxPureCode.after { [kept, releasing] in
            // Released outside the lock, but before the next line.
            _ = kept.member.withLock { Swift.exchange(&$0, with: nil) }
            if isFirst { releasing() }
        }
    }

    /// Ends the lease; the member is evicted once it has been unused for the family's `idle` time, or earlier.
    ///
    /// A second call does nothing.
    ///
    /// - Complexity: O(1).
    public func release() { if isFirstRelease() { FluxPureCode.after(releasing) } }

    private func isFirstRelease() -> Bool { !isReleased.withLock { Swift.exchange(&$0, with: true) } }
}

/// Holds the member of a lease, so that the member is released before the family learns that the lease has ended.
nonisolated private final class FluxLeased<Member: Sendable>: Sendable {
    /// Nil once the lease is deallocated.
    let member: FluxLock<Member?>

    init(_ member: Member) { self.member = FluxLock(member) }
}
