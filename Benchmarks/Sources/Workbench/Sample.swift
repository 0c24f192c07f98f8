import FluxCore

/// The state that every cell works on: one number that changes, and an array that is only carried along.
///
/// Everything is inlinable, so that a competitor in the benchmark's own module is optimised as with a type of its own.
@frozen
public struct Sample: FluxState {
    /// The only change.
    @frozen
    public enum Action: FluxAction {
        /// Adds to the count.
        case add(Int)
    }

    /// The sum of what was added.
    public var count = 0
    /// A thousand numbers that no action touches: a copy of the state must not copy them.
    public let ballast: [Int]

    /// Creates a state of count 0.
    public init() {
        ballast = Array(0..<1000)
    }

    /// Applies an action in place, as a competitor written by hand does.
    @inlinable @inline(__always)
    public mutating func apply(_ action: Action) {
        switch action {
        case .add(let amount): count += amount
        }
    }

    /// Applies an action and announces each one.
    @inlinable
    public mutating func handle(action: Action) -> Sample? {
        apply(action)
        return self
    }
}
