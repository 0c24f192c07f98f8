import Synchronization

nonisolated extension Synchronization.Atomic where Value == UInt8 {
    /// Sets some bits to what they are in a value, and leaves the others alone.
    func fluxSet(_ bits: UInt8, of mask: UInt8) {
        // First those that are to be set: nobody may take a short cut meanwhile.
        bitwiseOr(bits & mask, ordering: .sequentiallyConsistent)
        bitwiseAnd(bits | ~mask, ordering: .sequentiallyConsistent)
    }
}
