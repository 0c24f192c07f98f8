/// Holds a machine by reference: `#expect` cannot call a mutating method of a local value.
final class Box<Machine> {
    var it: Machine

    init(_ machine: Machine) {
        it = machine
    }
}
