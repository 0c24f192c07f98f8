import FluxCore
import TestSupport

/// Notes in which order stores get an action.
struct Noting: FluxState {
    let number: Int
    let order: Locked<[Int]>
    mutating func handle(action: Counter.Action) -> Noting? {
        order.withLock { $0.append(number) }
        return self
    }
}

/// Runs a closure in its `handle`, which is not allowed to do much.
struct Impure: FluxState {
    enum Action: FluxAction { case run }
    let body: @Sendable () -> Void

    init(_ body: @escaping @Sendable () -> Void) {
        self.body = body
    }

    mutating func handle(action: Action) -> Impure? {
        body()
        return self
    }
}
