#if canImport(FluxCore)
    import FluxCore
#endif

/// Which entries count, as every node works it out alike: an entry that is in the log twice, or that comes too late, is passed over.
///
/// It is a part of each snapshot, and it is bounded. Each entry names its writer, its number, the lowest number that its writer
/// may still have under way (the floor), and how many entries the writer had read when it made the entry (the base).
///
/// - Below the floor of a writer nothing is applied any more, so only the numbers above it are kept.
/// - Where more than `spread` of these were applied, the floor is raised past the older half of them.
/// - What comes more than `window` entries after its base is not applied. So a writer that was silent for so long can be forgotten:
///   whatever of it is still under way comes too late.
nonisolated struct FluxReplicaLedger: Equatable {
    /// Part of the format: all nodes have to have the same.
    static let window: UInt64 = 65_536
    static let spread = 4_096

    /// What is kept of one writer.
    struct Writer: Equatable {
        var floor: UInt64 = 0
        /// The numbers from the floor on that were applied, in order.
        var applied: [UInt64] = []
        /// How many entries there were when the last of this writer came.
        var last: UInt64 = 0

        fileprivate mutating func admit(_ number: UInt64, floor newFloor: UInt64) -> Bool {
            if newFloor > floor { raise(newFloor) }
            let place = place(of: number)
            if number < floor || has(number, at: place) { return false }
            applied.insert(number, at: place)
            if applied.count > FluxReplicaLedger.spread { raise(applied[FluxReplicaLedger.spread / 2]) }
            return true
        }

        private mutating func raise(_ newFloor: UInt64) {
            floor = newFloor
            applied.removeFirst(place(of: newFloor))
        }

        fileprivate func has(_ number: UInt64, at place: Int) -> Bool {
            place < applied.count && applied[place] == number
        }

        /// Where a number stands or would stand: at the end, for most.
        fileprivate func place(of number: UInt64) -> Int {
            var (low, high) = (0, applied.count)
            if let last = applied.last, last < number { return high }
            while low < high {
                let middle = (low + high) / 2
                if applied[middle] < number { low = middle + 1 } else { high = middle }
            }
            return low
        }
    }

    /// The position of the last entry.
    var position: UInt64 = 0
    /// How many entries there were, those that were passed over too.
    var count: UInt64 = 0
    var writers: [UInt64: Writer] = [:]

    /// Takes the next entry; false: it is passed over.
    mutating func admit(_ position: UInt64, _ envelope: FluxReplicaEnvelope) -> Bool {
        self.position = position
        count += 1
        let oldest = count > Self.window ? count - Self.window : 0
        if count.isMultiple(of: Self.window) { writers = writers.filter { $0.value.last >= oldest } }
        if envelope.base < oldest { return false }
        writers[envelope.writer, default: Writer()].last = count
        return writers[envelope.writer, default: Writer()].admit(envelope.number, floor: envelope.floor)
    }

    /// What has become of a number; nil: it is not known any more.
    func hasApplied(_ number: UInt64, of writer: UInt64) -> Bool? {
        guard let writer = writers[writer] else { return false }
        if number < writer.floor { return nil }
        return writer.has(number, at: writer.place(of: number))
    }
}
