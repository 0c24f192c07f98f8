/// The highest number seen so far, which a test can wait for.
public final class Highest: Sendable {
    private let state = Locked((highest: -1, wanted: Int.max, gate: Gate?.none))

    /// Creates an object that has seen no number.
    public init() {}

    /// The highest number, or -1.
    public var current: Int { state.withLock { $0.highest } }

    /// Records a number.
    public func see(_ number: Int) {
        let gate = state.withLock { state -> Gate? in
            state.highest = max(state.highest, number)
            return state.highest >= state.wanted ? state.gate : nil
        }
        gate?.open()
    }

    /// Suspends until this number or a higher one has been seen; stops the program if that takes too long.
    public func reaches(_ number: Int, file: StaticString = #fileID, line: UInt = #line) async {
        let gate = Gate()
        let isThere = state.withLock { state in
            (state.wanted, state.gate) = (number, gate)
            return state.highest >= number
        }
        if !isThere { await gate.opened(file: file, line: line) }
    }
}
