import Explorer

/// An atomic value, each use of which is a step; it has those members of the real one that the sources use.
///
/// All orderings are treated as sequentially consistent.
public struct Atomic<Value>: ~Copyable, @unchecked Sendable {
    private let cell: Cell<Value>

    /// Creates an atomic value.
    public init(_ value: Value) { cell = Cell(value) }

    deinit { cell.end() }

    /// Returns the value.
    public borrowing func load(ordering: AtomicOrdering, file: StaticString = #fileID, line: UInt = #line) -> Value {
        Explorer.shared.step(.load, cell, Place(file, line))
        return cell.value
    }

    /// Sets the value.
    public borrowing func store(
        _ value: Value, ordering: AtomicOrdering, file: StaticString = #fileID, line: UInt = #line
    ) {
        Explorer.shared.step(.store, cell, Place(file, line))
        cell.value = value
    }

    /// Sets the value, and returns the previous one.
    @discardableResult public borrowing func exchange(
        _ value: Value, ordering: AtomicOrdering, file: StaticString = #fileID, line: UInt = #line
    ) -> Value {
        Explorer.shared.step(.exchange, cell, Place(file, line))
        defer { cell.value = value }
        return cell.value
    }
}

extension Atomic {
    /// Sets the value if it is the expected one, and returns the previous value.
    public borrowing func compareExchange<Instance>(
        expected: Value, desired: Value, ordering: AtomicOrdering, file: StaticString = #fileID, line: UInt = #line
    ) -> (exchanged: Bool, original: Value) where Value == Unmanaged<Instance>? {
        Explorer.shared.step(.exchange, cell, Place(file, line))
        let original = cell.value
        let isExpected = original?.toOpaque() == expected?.toOpaque()
        if isExpected { cell.value = desired }
        return (isExpected, original)
    }
}

extension Atomic where Value: FixedWidthInteger {
    /// Adds to the value, and wraps.
    @discardableResult public borrowing func wrappingAdd(
        _ value: Value, ordering: AtomicOrdering, file: StaticString = #fileID, line: UInt = #line
    ) -> (oldValue: Value, newValue: Value) {
        Explorer.shared.step(.exchange, cell, Place(file, line))
        let old = cell.value
        cell.value = old &+ value
        return (old, cell.value)
    }
}

/// The orderings that the sources name.
public enum AtomicOrdering: Sendable {
    /// The orderings have the names that they have in `Synchronization`.
    case relaxed, acquiring, releasing, acquiringAndReleasing, sequentiallyConsistent
}

private final class Cell<Value>: Shared, @unchecked Sendable {
    var value: Value

    init(_ value: Value) { self.value = value }

    override var title: String { "Atomic<\(Value.self)>" }
}
