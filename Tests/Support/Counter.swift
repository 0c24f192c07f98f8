import FluxCore

/// A state that counts, and remembers the last mark of each producer.
public struct Counter: FluxState {
    /// An action that changes the count.
    public enum Action: FluxAction {
        case add(Int)
        /// Changes the state but announces nothing.
        case addSilently(Int)
        case mark(producer: Int, number: Int)
    }

    /// The sum of everything added, plus one for each mark.
    public var count: Int
    /// The last number that each producer sent.
    public var marks: [Int: Int] = [:]
    /// How many marks were not one higher than the last one of their producer.
    public var disorder = 0

    /// Creates a counter that has seen no mark.
    public init(count: Int = 0) {
        self.count = count
    }

    /// Counts, and checks the order of marks.
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

/// A state with the same actions as ``Counter``, so that one dispatcher reaches both.
public struct Log: FluxState {
    /// The amounts added, in order.
    public var entries: [Int]

    /// Creates a log with the given entries.
    public init(entries: [Int] = []) {
        self.entries = entries
    }

    /// Appends what is added; for a mark, the producer and the number in one entry.
    public mutating func handle(action: Counter.Action) -> Log? {
        switch action {
        case .add(let amount): entries.append(amount)
        case .addSilently: return nil
        case .mark(let producer, let number): entries.append(producer * 1_000_000 + number)
        }
        return self
    }
}

/// Sends the actions that the event names; for `hold`, keeps the action handler until the test releases it.
public enum CounterConverter: FluxActionConverter {
    /// The actions to send, or what to do with the action handler.
    public enum Event: FluxEvent {
        case add(Int)
        case addMany([Int])
        case nothing
        case mark(producer: Int, number: Int)
        case hold(HandlerHold<Counter.Action>)
        case block(Gate)
    }

    /// Does what the event says before it returns, except for `hold`.
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
    /// Opens once a handler is kept.
    public let isKept = Gate()

    /// Creates a hold without a handler.
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

    /// Releases the handler, which ends the conversion.
    public func letGo() {
        _ = handler.withLock { $0.take() }
    }
}
