/// Transfers a value that is used by one thread at a time but is not `Sendable`, such as a Combine subscriber.
///
/// - Parameter value: The value, which only the new owner uses from here on.
/// - Returns: The same value.
nonisolated func fluxSent<Value>(_ value: Value) -> sending Value {
    nonisolated(unsafe) let value = value
    return value
}
