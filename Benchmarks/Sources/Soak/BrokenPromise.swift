/// A promise of the contract that was not kept.
struct BrokenPromise: Error, CustomStringConvertible {
    let description: String

    init(_ clause: String, _ description: String) {
        self.description = "\(clause): \(description)"
    }
}

/// Throws unless a value is the promised one.
func promise<Value: Equatable>(_ clause: String, _ what: String, _ actual: Value, is expected: Value) throws {
    if actual != expected { throw BrokenPromise(clause, "\(what): \(actual) instead of \(expected)") }
}

/// Waits until a condition holds, and throws if it does not within a minute.
func promise(_ clause: String, _ what: String, comes condition: () async -> Bool) async throws {
    let clock = ContinuousClock()
    let limit = clock.now + .seconds(60)
    while await !condition() {
        if clock.now > limit { throw BrokenPromise(clause, "not within a minute: \(what)") }
        try await Task.sleep(for: .milliseconds(1))
    }
}
