import Explorer

/// A queue whose work is done when the explorer says so: it has of the real one what the sources use.
public final class DispatchQueue: Shared, @unchecked Sendable {
    /// What the real one takes; it makes no difference here.
    public enum AutoreleaseFrequency: Sendable {
        /// Once per piece of work.
        case workItem
    }

    private static let concurrent = DispatchQueue("global", isSerial: false)
    /// The main queue, as a serial queue.
    public static let main = DispatchQueue("main", isSerial: true)

    /// The queue of the label.
    public let label: String
    private let isSerial: Bool
    private var pending: [() -> Void] = []
    private var isAtWork = false
    private var marks: [ObjectIdentifier: Any] = [:]

    private init(_ label: String, isSerial: Bool) { (self.label, self.isSerial) = (label, isSerial) }

    /// Makes a serial queue.
    public convenience init(
        label: String, autoreleaseFrequency: AutoreleaseFrequency = .workItem, target: DispatchQueue? = nil
    ) {
        self.init(label, isSerial: true)
    }

    /// The queue for what may run at once.
    public static func global() -> DispatchQueue { concurrent }

    /// What it is, for people.
    public override var title: String { "queue \(label)" }

    /// It lives for as long as the run, which knows it.
    public override var isCounted: Bool { false }

    /// Has something done soon.
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

    /// Keeps a value with the queue.
    public func setSpecific<Value>(key: DispatchSpecificKey<Value>, value: Value?) {
        marks[ObjectIdentifier(key)] = value
    }

    /// The value that is kept with the queue.
    public func getSpecific<Value>(key: DispatchSpecificKey<Value>) -> Value? { marks[ObjectIdentifier(key)] as? Value }
}

/// What a queue keeps a value by.
public final class DispatchSpecificKey<Value>: Sendable {
    /// Makes a key.
    public init() {}
}
