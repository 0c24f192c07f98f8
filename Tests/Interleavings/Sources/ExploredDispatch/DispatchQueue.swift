import Explorer

/// A queue whose work runs when the explorer decides; it has those members of the real queue that the sources use.
public final class DispatchQueue: Shared, @unchecked Sendable {
    /// An option of the real queue, which makes no difference here.
    public enum AutoreleaseFrequency: Sendable {
        /// Once per piece of work.
        case workItem
    }

    private static let concurrent = DispatchQueue("global", isSerial: false)
    /// The main queue, as a serial queue.
    public static let main = DispatchQueue("main", isSerial: true)

    /// The label of the queue.
    public let label: String
    private let isSerial: Bool
    private var pending: [() -> Void] = []
    private var isAtWork = false
    private var marks: [ObjectIdentifier: Any] = [:]

    private init(_ label: String, isSerial: Bool) { (self.label, self.isSerial) = (label, isSerial) }

    /// Creates a serial queue.
    public convenience init(
        label: String, autoreleaseFrequency: AutoreleaseFrequency = .workItem, target: DispatchQueue? = nil
    ) {
        self.init(label, isSerial: true)
    }

    /// Returns the queue for work that may run concurrently.
    public static func global() -> DispatchQueue { concurrent }

    /// A description for reports.
    public override var title: String { "queue \(label)" }

    /// Whether the queue must be gone when a scenario is over; it need not, because the run keeps it.
    public override var isCounted: Bool { false }

    /// Submits work to the queue.
    public func async(
        file: StaticString = #fileID, line: UInt = #line, execute work: @escaping @Sendable () -> Void
    ) {
        Explorer.shared.step(.hop, self, Place(file, line), isFree: !isSerial)
        guard isSerial else { return Explorer.shared.spawn("\(label) queue", work) }
        pending.append(work)
        if isAtWork { return }
        isAtWork = true
        Explorer.shared.spawn("queue \(label)") { self.work() }
    }

    private func work() {
        while !pending.isEmpty {
            var work: (() -> Void)? = pending.removeFirst()
            work?()
            work = nil
            if !pending.isEmpty { Explorer.shared.step(.hop, self, Place(#fileID, #line)) }
        }
        isAtWork = false
    }

    /// Stores a value with the queue.
    public func setSpecific<Value>(key: DispatchSpecificKey<Value>, value: Value?) {
        marks[ObjectIdentifier(key)] = value
    }

    /// Returns the value that is stored with the queue.
    public func getSpecific<Value>(key: DispatchSpecificKey<Value>) -> Value? { marks[ObjectIdentifier(key)] as? Value }
}

/// The key of a value that is stored with a queue.
public final class DispatchSpecificKey<Value>: Sendable {
    /// Creates a key.
    public init() {}
}
