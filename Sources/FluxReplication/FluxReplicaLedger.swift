#if canImport(FluxCore)
    import FluxCore
#endif

/// Which entries count, as every node works it out alike: an entry that is in the log twice, or that comes too late, is passed over.
///
/// It is a part of each snapshot, and it is bounded. Each entry names its writer, its number, the lowest number that its writer
/// still waits for (the floor), those above it that it has given up, and how many entries it had read then (the base).
///
/// - Below the floor of a writer nothing is applied any more, so only the numbers above it are kept. Nor is what it has given up: so
///   that which came to nothing, as far as a client knows, is not applied behind what the client has sent after it.
/// - Where more than `spread` numbers are kept, the floor is raised past the older half of them.
/// - What comes more than `window` entries after its base is not decided. So a writer that was silent for so long can be forgotten:
///   whatever of it is still under way comes too late.
nonisolated struct FluxReplicaLedger: Equatable {
    /// Part of the format: all nodes have to have the same.
    private let window: UInt64
    private let spread: Int

    /// What is kept of one writer.
    struct Writer: Equatable {
        var floor: UInt64 = 0
        /// The numbers from the floor on that were applied or given up, in order.
        var decided: [UInt64] = []
        /// How many entries there were when the last of this writer came.
        var last: UInt64 = 0

        fileprivate mutating func admit(_ envelope: FluxReplicaEnvelope, spread: Int) -> Bool {
            if envelope.floor > floor { raise(envelope.floor) }
            for number in envelope.givenUp { decide(number) }
            let isNew = decide(envelope.number)
            if decided.count > spread { raise(decided[decided.count - spread / 2]) }
            return isNew
        }

        @discardableResult private mutating func decide(_ number: UInt64) -> Bool {
            let place = place(of: number)
            if number < floor || has(number, at: place) { return false }
            decided.insert(number, at: place)
            return true
        }

        private mutating func raise(_ newFloor: UInt64) {
            floor = newFloor
            decided.removeFirst(place(of: newFloor))
        }

        fileprivate func has(_ number: UInt64, at place: Int) -> Bool {
            place < decided.count && decided[place] == number
        }

        /// Where a number stands or would stand: at the end, for most.
        fileprivate func place(of number: UInt64) -> Int {
            var (low, high) = (0, decided.count)
            if let last = decided.last, last < number { return high }
            while low < high {
                let middle = (low + high) / 2
                if decided[middle] < number { low = middle + 1 } else { high = middle }
            }
            return low
        }
    }

    /// The position of the last entry.
    var position: UInt64 = 0
    /// How many entries there were, those that were passed over too.
    var count: UInt64 = 0
    var writers: [UInt64: Writer] = [:]

    init(window: UInt64 = 65_536, spread: Int = 4_096) {
        (self.window, self.spread) = (window, spread)
    }

    /// Takes the next entry; false: it is passed over.
    mutating func admit(_ position: UInt64, _ envelope: FluxReplicaEnvelope) -> Bool {
        self.position = position
        count += 1
        if count.isMultiple(of: window) { writers = writers.filter { $0.value.last >= oldest } }
        if envelope.base < oldest { return false }
        writers[envelope.writer, default: Writer()].last = count
        return writers[envelope.writer, default: Writer()].admit(envelope, spread: spread)
    }

    /// Whether a number that was not given up is applied; nil: it is not known any more, and will not be applied from now on.
    func hasApplied(_ number: UInt64, of writer: UInt64, base: UInt64) -> Bool? {
        let writer = writers[writer] ?? Writer()
        if writer.has(number, at: writer.place(of: number)) { return true }
        return base < oldest || number < writer.floor ? nil : false
    }

    /// What was made before so many entries comes too late.
    private var oldest: UInt64 { count > window ? count - window : 0 }
}
