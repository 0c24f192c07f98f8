/// Counts what is under way, and tells when everything that started before a certain moment has finished.
///
/// A pure state machine. Time is cut into epochs, a new one at each `wait`; those who wait at the end of an epoch are
/// told when it and all before it are empty.
///
/// | input    | result                                                                          |
/// |----------|---------------------------------------------------------------------------------|
/// | `start`  | the epoch that this start belongs to                                            |
/// | `finish` | those who waited for nothing else                                               |
/// | `wait`   | false if nothing is under way; else kept until all that started so far finished |
@usableFromInline
nonisolated struct FluxLedger<Waiter> {
    @usableFromInline var epochs: ContiguousArray<(open: Int, waiters: ContiguousArray<Waiter>)> = [(0, [])]
    /// The number of the first of `epochs`.
    @usableFromInline var first = 0

    @inlinable
    init() {}

    /// Counts a start and returns its epoch, to be given to `finish`.
    @inlinable
    mutating func start() -> Int {
        epochs[epochs.count - 1].open += 1
        return first + epochs.count - 1
    }

    /// Counts a finish; returns those who need not wait any longer.
    @inlinable
    mutating func finish(_ epoch: Int) -> ContiguousArray<Waiter> {
        epochs[epoch - first].open -= 1
        var released: ContiguousArray<Waiter> = []
        while epochs.count > 1 && epochs[0].open == 0 {
            released += epochs.removeFirst().waiters
            first += 1
        }
        return released
    }

    /// Keeps somebody until everything started so far has finished; false if it has.
    @inlinable
    mutating func wait(_ waiter: Waiter) -> Bool {
        let last = epochs.count - 1
        if last == 0 && epochs[0].open == 0 { return false }
        epochs[last].waiters.append(waiter)
        epochs.append((0, []))
        return true
    }
}
