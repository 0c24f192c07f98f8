/// A version of NATS, and what is known about it.
struct ServerVersion {
    private let parts: [Int]

    /// Parses a version such as `2.10.27`.
    init(_ text: String) { parts = text.split(separator: ".").map { Int($0) ?? 0 } }

    /// The oldest version in which no loss was seen.
    private static let good = [2, 10, 27]

    /// What is wrong with the version; nil: no loss was seen in it.
    var warning: String? {
        if !parts.lexicographicallyPrecedes(Self.good) { return nil }
        return
            "older than 2.10.27, the oldest that kept everything it had acknowledged; with 2.9.10, a leader that was stopped "
            + "and continued had other messages than the rest; Sources/JetStreamLog/README.md says where to get a newer one"
    }
}
