import FluxCore

/// A state that counts, and remembers the last mark it was given.
public struct Counter: FluxState {
    /// What changes it.
    public enum Action: FluxAction {
        case add(Int)
        /// Changes the state but announces nothing.
        case addSilently(Int)
        case mark(producer: Int, number: Int)
    }

    /// The sum of what was added.
    public var count: Int
    /// Per producer, the last number it sent.
    public var marks: [Int: Int] = [:]
    /// How often a producer's numbers were not one higher than the last.
    public var disorder = 0

    /// A counter that has seen no mark.
    public init(count: Int = 0) {
        self.count = count
    }

    /// Counts.
    public mutating func handle(action: Action) -> Counter? {
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
public struct Log: FluxState {
    /// What was added, in order.
    public var entries: [Int]

    /// A log with some entries, or none.
    public init(entries: [Int] = []) {
        self.entries = entries
    }

    /// Writes down what is added.
    public mutating func handle(action: Counter.Action) -> Log? {
        switch action {
        case .add(let amount): entries.append(amount)
        case .addSilently: return nil
        case .mark(let producer, let number): entries.append(producer * 1_000_000 + number)
        }
        return self
    }
}

/// Sends what the event says; with a hold, keeps the handler and sends only when that is let go.
public enum CounterConverter: FluxActionConverter {
    /// What it sends, or what it does with the handler.
    public enum Event: FluxEvent {
        case add(Int)
        case addMany([Int])
        case nothing
        case mark(producer: Int, number: Int)
        case hold(HandlerHold<Counter.Action>)
        case block(Gate)
    }

    /// Does what the event says before it returns.
    public static func convert(
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
public final class HandlerHold<Action: FluxAction>: Sendable {
    private let handler = Locked<(@Sendable (Action) -> Void)?>(nil)
    /// Opens once there is a handler.
    public let isKept = Gate()

    /// A hold without a handler.
    public init() {}

    /// Keeps a handler.
    public func keep(_ handler: @escaping @Sendable (Action) -> Void) {
        self.handler.withLock { $0 = handler }
        isKept.open()
    }

    /// Calls the handler, if there is one.
    public func send(_ action: Action) {
        handler.withLock { $0 }?(action)
    }

    /// Lets go of the handler, which ends the conversion.
    public func letGo() {
        _ = handler.withLock { $0.take() }
    }
}
