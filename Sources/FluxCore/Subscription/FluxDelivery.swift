/// What a subscription gets where changes come faster than it takes them.
///
/// | delivery            | gets                                              | holds, while it is slow          |
/// |---------------------|---------------------------------------------------|----------------------------------|
/// | `.every`            | each change, in order                             | what it has not taken yet        |
/// | `.latest`           | the newest; skips, never goes back                | nothing; of a view, what it got last |
/// | `.buffered(newest:)` | in order, the newest so many of what waits        | at most so many, and counts the rest |
/// | `.buffered(oldest:)` | in order, the oldest so many of what waits        | at most so many, and counts the rest |
///
/// Whoever must not miss any and must not let memory grow either subscribes with `failingAfter:`.
///
/// Thread safety: a value.
nonisolated public struct FluxDelivery: Sendable, Hashable {
    @usableFromInline
    enum Kind: Sendable, Hashable {
        case every
        case latest
        case newest(Int)
        case oldest(Int)
    }

    @usableFromInline let kind: Kind

    @inlinable
    init(kind: Kind) {
        self.kind = kind
    }

    /// Each announced change exactly once, in order; lossless.
    @inlinable public static var every: FluxDelivery { FluxDelivery(kind: .every) }

    /// The state as it is when it is handed over; ends on the newest (C5).
    @inlinable public static var latest: FluxDelivery { FluxDelivery(kind: .latest) }

    /// In order; at most so many changes wait, and where one more comes, the oldest goes.
    ///
    /// - Parameter limit: How many changes may wait, 1 at least.
    /// - Returns: The delivery.
    public static func buffered(newest limit: Int) -> FluxDelivery {
        FluxBound.check(limit)
        return FluxDelivery(kind: .newest(limit))
    }

    /// In order; at most so many changes wait, and where one more comes, it is left out.
    ///
    /// - Parameter limit: How many changes may wait, 1 at least.
    /// - Returns: The delivery.
    public static func buffered(oldest limit: Int) -> FluxDelivery {
        FluxBound.check(limit)
        return FluxDelivery(kind: .oldest(limit))
    }
}

/// The end of a subscription that was to miss nothing: more changes waited than it was willing to keep.
///
/// Thread safety: a value.
nonisolated public struct FluxOverflow: Error, Sendable, Hashable {
    /// How many changes were allowed to wait.
    public let limit: Int

    @usableFromInline
    init(limit: Int) {
        self.limit = limit
    }
}
