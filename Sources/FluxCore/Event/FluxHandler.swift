/// What the action handler of a callback converter holds: the conversion has finished once nobody does any longer.
@usableFromInline
nonisolated final class FluxHandler<Converter: FluxActionConverter>: Sendable {
    @usableFromInline let conversions: FluxConversions<Converter>
    /// Set while nobody else has the handler, and retained for it, which has to release it.
    @exclusivity(unchecked) @usableFromInline nonisolated(unsafe) var task: Unmanaged<FluxTask>?

    @inlinable
    init(_ conversions: FluxConversions<Converter>) {
        self.conversions = conversions
    }

    deinit {
        end()
    }

    @usableFromInline
    func end() {
        guard let task else { return }
        // First: ThreadSanitizer sees by the gate that those who sent, on other threads, have let go of this.
        task._withUnsafeGuaranteedRef { _ = $0.end(.completed) }
        self.task = nil
        task.release()
    }

    @inlinable var hasEnded: Bool { task?._withUnsafeGuaranteedRef { $0.hasEnded } ?? true }

    @inlinable
    func convert(_ event: Converter.Event) {
        Converter.convert(event: event, dependency: conversions.dependency) { self.send($0) }
    }

    @inlinable
    func send(_ action: Converter.Action) {
        task?._withUnsafeGuaranteedRef { task in
            guard let entry = task.enter() else { return }
            conversions.send(action)
            task.leave(entry)
        }
    }
}
