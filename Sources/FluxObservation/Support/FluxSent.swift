/// Hands on what is used by one thread at a time though it is not `Sendable`, as a subscriber of Combine's is.
///
/// - Parameter value: What from here on only the new owner uses.
/// - Returns: The same.
nonisolated func fluxSent<Value>(_ value: Value) -> sending Value {
    nonisolated(unsafe) let value = value
    return value
}
