/// Moves a value out of its place and leaves nil behind, without a copy.
///
/// `Optional.take()` does that too, but a module that the sources are vendored into may have an extension of that name.
@inlinable @inline(__always)
nonisolated func fluxTake<Value>(_ place: inout Value?) -> Value? {
    var value: Value?
    swap(&value, &place)
    return value
}
