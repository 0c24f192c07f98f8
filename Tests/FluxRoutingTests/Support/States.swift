import FluxCore
import TestSupport

/// Records the order in which stores get an action.
struct Noting: FluxState {
    let number: Int
    let order: Locked<[Int]>
    mutating func handle(action: Counter.Action) -> Noting? {
        order.withLock { $0.append(number) }
        return self
    }
}

/// Runs a closure in its `handle`, where little is allowed.
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
