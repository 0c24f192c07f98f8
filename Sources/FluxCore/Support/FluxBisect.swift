/// The position of an id among ids in rising order, found by bisection; nil where there is none.
///
/// It is given positions rather than elements, so that no element is copied for a look at its id.
@inlinable @inline(__always)
nonisolated func fluxBisect(_ count: Int, for id: UInt64, _ idAt: (Int) -> UInt64) -> Int? {
    var low = 0
    var high = count
    while low < high {
        let middle = (low + high) / 2
        if idAt(middle) < id { low = middle + 1 } else { high = middle }
    }
    return low < count && idAt(low) == id ? low : nil
}
