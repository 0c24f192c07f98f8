/// Decides which entries count, identically on every node: an entry that is repeated or comes too late is passed over.
///
/// The ledger is part of each snapshot, and its size is bounded. Each entry names its writer, its number, the lowest
/// number that its writer still waits for (the floor), the higher numbers that its writer has given up, and how many
/// entries its writer had read by then (the base).
///
/// - An entry below its writer's floor is no longer applied, so only the numbers from the floor on are kept. A number
///   that its writer has given up is not applied either. So an action whose dispatch has ended unconfirmed is never
///   applied after later actions of the same writer.
/// - If more than `spread` numbers are kept, the floor is raised past the older half of them.
/// - An entry that comes more than `window` entries after its base is passed over. So a writer that was silent for that
///   long can be forgotten: any of its entries that are still under way come too late.
nonisolated struct FluxReplicaLedger: Equatable {
    /// Part of the format: it has to be the same on all nodes.
    private let window: UInt64
    private let spread: Int

    /// The record of one writer.
    struct Writer: Equatable {
        var floor: UInt64 = 0
        /// The numbers from the floor on that were applied or given up, in ascending order.
        var decided: [UInt64] = []
        /// The count of entries as of this writer's last entry.
        var last: UInt64 = 0

        fileprivate mutating func admit(_ envelope: FluxReplicaEnvelope, spread: Int) -> Bool {
            if envelope.floor > floor { raise(envelope.floor) }
            for number in envelope.givenUp { decide(number) }
            let isNew = decide(envelope.number)
            if decided.count > spread { raise(decided[decided.count - spread / 2]) }
            return isNew
        }

        @discardableResult private mutating func decide(_ number: UInt64) -> Bool {
            let (place, isThere) = place(of: number)
            if number < floor || isThere { return false }
            decided.insert(number, at: place)
            return true
        }

        private mutating func raise(_ newFloor: UInt64) {
            floor = newFloor
            decided.removeFirst(place(of: newFloor).index)
        }

        /// Returns the index of a number, or the one at which to insert it; for most numbers that is the end.
        fileprivate func place(of number: UInt64) -> (index: Int, isThere: Bool) {
            var (low, high) = (0, decided.count)
            if let last = decided.last, last < number { return (high, false) }
            while low < high {
                let middle = (low + high) / 2
                if decided[middle] < number { low = middle + 1 } else { high = middle }
            }
            return (low, low < decided.count && decided[low] == number)
        }
    }

    /// The position of the last entry.
    var position: UInt64 = 0
    /// How many entries were read, including those that were passed over.
    var count: UInt64 = 0
    var writers: [UInt64: Writer] = [:]

    init(window: UInt64 = 65_536, spread: Int = 4_096) {
        (self.window, self.spread) = (window, spread)
    }

    /// Records the next entry; returns false if it is passed over.
    mutating func admit(_ position: UInt64, _ envelope: FluxReplicaEnvelope) -> Bool {
        self.position = position
        count += 1
        if count.isMultiple(of: window) { writers = writers.filter { $0.value.last >= oldest } }
        if envelope.base < oldest { return false }
        writers[envelope.writer, default: Writer()].last = count
        return writers[envelope.writer, default: Writer()].admit(envelope, spread: spread)
    }

    /// Returns whether a number that was not given up has been applied; nil if that is no longer known.
    ///
    /// With nil it will not be applied from now on.
    func hasApplied(_ number: UInt64, of writer: UInt64, base: UInt64) -> Bool? {
        let writer = writers[writer] ?? Writer()
        if writer.place(of: number).isThere { return true }
        return base < oldest || number < writer.floor ? nil : false
    }

    /// The lowest base that is accepted; an entry with a lower one comes too late.
    private var oldest: UInt64 { count > window ? count - window : 0 }
}
