/// Holds a machine by reference, because `#expect` cannot call a mutating method on a local value.
public final class Box<Machine> {
    /// The machine.
    public var it: Machine

    /// Puts a machine into a box.
    public init(_ machine: Machine) {
        it = machine
    }
}
