import Dispatch

/// What a creator and its events in flight share; it lives as long as either.
@usableFromInline
final class FluxConversions<Converter: FluxActionConverter>: Sendable {
    @usableFromInline let dependency: Converter.Dependency
    @usableFromInline let send: @Sendable (Converter.Action) -> Void
    /// The creator's own serial queue: `DispatchQueue.main` never runs in a server.
    @usableFromInline let queue = DispatchQueue(
        label: "FluxActionCreator", autoreleaseFrequency: .workItem, target: .global())
    private let ledger = FluxLock(FluxLedger<FluxLatch>())

    @usableFromInline
    init(dependency: Converter.Dependency, send: @escaping @Sendable (Converter.Action) -> Void) {
        self.dependency = dependency
        self.send = send
    }

    @usableFromInline
    func start() -> FluxConversion {
        let epoch = ledger.withLock { $0.start() }
        return FluxConversion { self.finish(epoch) }
    }

    private func finish(_ epoch: Int) {
        for waiter in ledger.withLock({ $0.finish(epoch) }) { waiter.leave() }
    }

    func flush() async {
        let latch = FluxLatch()
        ledger.withLock { if $0.wait(latch) { latch.enter() } }
        await latch.wait()
    }
}

/// The events of one `fire` in flight: they have finished when nobody holds this any longer.
@usableFromInline
final class FluxConversion: Sendable {
    private let finish: @Sendable () -> Void

    init(finish: @escaping @Sendable () -> Void) {
        self.finish = finish
    }

    deinit {
        finish()
    }
}
