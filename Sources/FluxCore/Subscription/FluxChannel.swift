/// Hands what a subscription got to one iterator, which need not take it as fast.
nonisolated final class FluxChannel<Element: Sendable>: Sendable {
    private typealias Machine = FluxChannelMachine<Element, FluxContinuation>

    private let lock: FluxLock<Machine>

    init(_ rule: FluxDelivery.Kind, failingAfter limit: Int = .max) {
        lock = FluxLock(Machine(rule, failingAfter: limit))
    }

    var dropped: Int { lock.withLock { $0.dropped } }

    func push(_ element: Element) {
        lock.withLock { $0.push(element) }.wake?.resume()
    }

    func finish(_ error: (any Error)? = nil) {
        lock.withLock { $0.finish(error) }?.resume()
    }

    func cancel() {
        lock.withLock { $0.cancel() }.wake?.resume()
    }

    /// Takes the next element, and waits for it if there is none.
    func next(
        isolation actor: isolated (any Actor)?
    ) async -> FluxChannelMachine<Element, FluxContinuation>.Taken {
        while true {
            if _Concurrency.Task.isCancelled { cancel() }
            let taken = lock.withLock { $0.take() }
            guard case .empty = taken else { return taken }
            await wait(isolation: actor)
        }
    }

    private func wait(isolation actor: isolated (any Actor)?) async {
        await withTaskCancellationHandler {
            await fluxSuspend { continuation in
                if !lock.withLock({ $0.wait(continuation) }) { continuation.resume() }
            }
        } onCancel: {
            cancel()
        }
    }

    /// What the handler of the subscription captures: when it is released, nothing more can come.
    final class Input: Sendable {
        private let channel: FluxChannel

        init(_ channel: FluxChannel) {
            self.channel = channel
        }

        deinit {
            channel.finish()
        }

        func push(_ element: Element) {
            channel.push(element)
        }

        func fail(_ error: any Error) {
            channel.finish(error)
        }
    }
}
