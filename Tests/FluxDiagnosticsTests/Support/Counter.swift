import FluxCore

/// A state that counts, and remembers the last mark it was given.
struct Counter: FluxState {
    enum Action: FluxAction {
        case add(Int)
        /// Changes the state but announces nothing.
        case addSilently(Int)
        case mark(producer: Int, number: Int)
    }

    var count = 0
    /// Per producer, the last number it sent.
    var marks: [Int: Int] = [:]
    /// How often a producer's numbers were not one higher than the last.
    var disorder = 0

    mutating func handle(action: Action) -> Counter? {
        switch action {
        case .add(let amount): count += amount
        case .addSilently(let amount):
            count += amount
            return nil
        case .mark(let producer, let number):
            count += 1
            if number != marks[producer, default: 0] + 1 { disorder += 1 }
            marks[producer] = number
        }
        return self
    }
}

/// The same actions for another state type, so that one dispatcher reaches both.
struct Log: FluxState {
    var entries: [Int] = []

    mutating func handle(action: Counter.Action) -> Log? {
        switch action {
        case .add(let amount): entries.append(amount)
        case .addSilently: return nil
        case .mark(let producer, let number): entries.append(producer * 1_000_000 + number)
        }
        return self
    }
}

/// Sends what the event says; with a hold, keeps the handler and sends only when that is let go.
enum CounterConverter: FluxActionConverter {
    enum Event: FluxEvent {
        case add(Int)
        case addMany([Int])
        case nothing
        case mark(producer: Int, number: Int)
        case hold(HandlerHold<Counter.Action>)
        case block(Gate)
    }

    static func convert(
        event: Event, dependency: Void, actionHandler: @escaping @Sendable (Counter.Action) -> Void
    ) {
        switch event {
        case .add(let amount): actionHandler(.add(amount))
        case .addMany(let amounts): amounts.forEach { actionHandler(.add($0)) }
        case .nothing: break
        case .mark(let producer, let number): actionHandler(.mark(producer: producer, number: number))
        case .hold(let hold): hold.keep(actionHandler)
        case .block(let gate): gate.wait()
        }
    }
}

/// Keeps an action handler for a test to call later.
final class HandlerHold<Action: FluxAction>: Sendable {
    private let handler = Locked<(@Sendable (Action) -> Void)?>(nil)
    let isKept = Gate()

    func keep(_ handler: @escaping @Sendable (Action) -> Void) {
        self.handler.withLock { $0 = handler }
        isKept.open()
    }

    func send(_ action: Action) {
        handler.withLock { $0 }?(action)
    }

    func letGo() {
        _ = handler.withLock { $0.take() }
    }
}
