// A queue has the label that it has everywhere, and the one that the ancestor gave it.
func fireOnAQueue(_ creator: FluxActionCreator<ShopConverter>, _ queue: DispatchQueue) {
    creator.fire(.add(1), on: queue)
    creator.fire([.add(1), .add(2)], on: queue)
    creator.fire(.add(1), on: .global())
    creator.fire(.add(1), executionQueue: queue)
    creator.fire([.add(1), .add(2)], executionQueue: queue)
    creator.fire(.add(1))
}
