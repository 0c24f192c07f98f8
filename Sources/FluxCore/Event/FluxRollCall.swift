/// Tells those who wait for everybody who was there when they came: a pure state machine.
///
/// Whoever is to be waited for has a number that only grows, and keeps the number of the last call that counted him; so
/// one who was gone before a call, and is taken note of after it, is not taken for one of those it counted.
///
/// | input    | result                                                                          |
/// |----------|---------------------------------------------------------------------------------|
/// | `call`   | the number of the call, for those it counts                                     |
/// | `wait`   | false if the call counted nobody; else kept until all those are gone            |
/// | `gone`   | those who waited for nobody else                                                |
nonisolated struct FluxRollCall<Waiter> {
    private struct Call {
        let number: UInt64
        /// The last one who was there.
        let last: UInt64
        var open: Int
        let waiter: Waiter
    }

    private var calls: ContiguousArray<Call> = []
    private var lastCall: UInt64 = 0

    mutating func call() -> UInt64 {
        lastCall += 1
        return lastCall
    }

    /// Keeps somebody who has just called.
    ///
    /// - Parameters:
    ///   - waiter: Who waits.
    ///   - count: How many the call counted.
    ///   - last: The number of the last one who was there.
    /// - Returns: Whether there is anybody to wait for.
    mutating func wait(_ waiter: Waiter, for count: Int, last: UInt64) -> Bool {
        if count > 0 { calls.append(Call(number: lastCall, last: last, open: count, waiter: waiter)) }
        return count > 0
    }

    /// Counts one who is gone.
    ///
    /// - Parameters:
    ///   - id: His number.
    ///   - counted: The number of the last call that counted him; 0 for none.
    /// - Returns: Those who need not wait any longer.
    mutating func gone(_ id: UInt64, counted: UInt64) -> ContiguousArray<Waiter> {
        if counted == 0 { return [] }
        var released: ContiguousArray<Waiter> = []
        for index in calls.indices where calls[index].last >= id && calls[index].number <= counted {
            calls[index].open -= 1
            if calls[index].open == 0 { released.append(calls[index].waiter) }
        }
        if !released.isEmpty { calls.removeAll { $0.open == 0 } }
        return released
    }
}
