/// Holds a machine by reference: `#expect` cannot call a mutating method of a local value.
public final class Box<Machine> {
    /// The machine.
    public var it: Machine

    /// Holds a machine.
    public init(_ machine: Machine) {
        it = machine
    }
}
