/// One row of the table: what is measured, for which competitors, and within which bounds.
///
/// To add one, write a file in Workloads with a `static let` in an extension of this type, and list it in `all`.
struct Workload: Sendable {
    /// The name by which it is selected, such as "w1".
    let name: String
    let title: String
    /// The cells, which run in turn, each in its own process.
    let cells: [Cell]
    /// The reading by which the others of its unit are divided, round by round.
    var floor: String?
    var bounds: [Bound] = []
}

/// A competitor in one workload.
struct Cell: Sendable {
    let name: String
    /// Measures one round; throws if a count is wrong.
    let run: @Sendable (Effort) throws -> [Reading]

    /// Creates a cell with any number of readings, each with its own name.
    init(_ name: String, readings run: @escaping @Sendable (Effort) throws -> [Reading]) {
        self.name = name
        self.run = run
    }

    /// Creates a cell with one reading in nanoseconds, named like the cell.
    init(_ name: String, _ run: @escaping @Sendable (Effort) throws -> Double) {
        self.name = name
        self.run = { [Reading(name: name, value: try run($0))] }
    }
}

/// A result of one round of a cell.
struct Reading: Codable, Sendable {
    let name: String
    let value: Double
    var unit = "ns"
}

/// A limit that a reading must keep.
struct Bound: Sendable {
    enum Limit: Sendable {
        /// At most this many times the floor, or the named reading.
        case ratio(atMost: Double, of: String?)
        /// At most this much, in the unit of the reading.
        case most(Double)
        /// At least this much, in the unit of the reading.
        case least(Double)
    }

    let reading: String
    let limit: Limit

    static func ratio(_ reading: String = Name.flux, atMost limit: Double, of floor: String? = nil) -> Bound {
        Bound(reading: reading, limit: .ratio(atMost: limit, of: floor))
    }

    static func value(_ reading: String, atMost limit: Double) -> Bound {
        Bound(reading: reading, limit: .most(limit))
    }

    static func value(_ reading: String, atLeast limit: Double) -> Bound {
        Bound(reading: reading, limit: .least(limit))
    }
}

/// The names that the cells of different workloads share.
enum Name {
    static let flux = "FluxCore"
    static let dispatcher = "FluxDispatcher"
    static let floor = "Mutex<State>"
    static let hop = "bare queue.async"
    static let copies = "bare queue.async, a copy each"
    static let immediate = "bare Task.immediate"
    static let queue = "serial DispatchQueue"
    static let actor = "actor, AsyncStream"
    static let combine = "OpenCombine"
}
