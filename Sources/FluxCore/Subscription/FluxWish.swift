import Dispatch

/// How a subscriber wants to be told.
@usableFromInline
nonisolated struct FluxWish: Sendable {
    @usableFromInline let delivery: FluxDelivery
    /// Where; nil: on the store's own queue.
    @usableFromInline let queue: DispatchQueue?
    @usableFromInline let startsWithCurrent: Bool
    /// The bound of the delivery, or one that ends the subscription.
    @usableFromInline let bound: FluxBound?

    @inlinable
    init(_ delivery: FluxDelivery, on queue: DispatchQueue?, startingWithCurrent: Bool, bound: FluxBound? = nil) {
        self.delivery = delivery
        self.queue = queue
        startsWithCurrent = startingWithCurrent
        self.bound =
            switch delivery.kind {
            case .every, .latest: bound
            case .newest, .oldest: FluxBound(delivery)
            }
    }
}
