import CustomDump
import Dispatch
import FluxCore
import Foundation

/// What a line of the page shows of a row.
struct Line: Encodable, Sendable {
    var number: UInt64
    /// In milliseconds since 1970.
    var time: Double
    /// What happened: `event`, `retry`, how an event ended, or what changed a state.
    var kind: String
    /// The type of the event or action.
    var type: String
    /// Its arguments, in one line and cut short.
    var text: String
    var store: Int?
    var dispatcher: String?
    var origin: UInt64?
    var revision: UInt64?
    var nanoseconds: UInt64?
    var error: String?
}

/// All there is to say of a row.
struct Detail: Encodable, Sendable {
    var line: Line
    /// The event or action in full.
    var arguments: String
    /// What it changed; nil where there is nothing to compare.
    var difference: String?
    /// Whether there is a state to look at.
    var hasState: Bool
}

/// Makes texts of what was noted, without what is to be hidden.
struct Rendering: Sendable {
    private static let longestLine = 200
    private static let longestText = 1_000_000

    let hides: (@Sendable (_ name: String, _ value: Any) -> Bool)?
    /// A large value takes a while: one after the other, and not on the threads that serve others.
    private let lines = DispatchQueue(label: "FluxInspector.lines", qos: .utility)
    private let texts = DispatchQueue(label: "FluxInspector.texts", qos: .utility)

    init(hides: (@Sendable (_ name: String, _ value: Any) -> Bool)?) {
        self.hides = hides
    }

    // MARK: - Rows

    /// The lines of rows.
    func lines(of rows: [Row]) async -> [Line] {
        await on(lines) { rows.map { line(of: $0) } }
    }

    /// The line of a row, made once.
    private func line(of row: Row) -> Line {
        if let known = row.line.withLock({ $0 }) { return known }
        let made = makeLine(of: row)
        row.line.withLock { $0 = made }
        return made
    }

    private func makeLine(of row: Row) -> Line {
        let subject = subject(of: row)
        let type = name(of: Swift.type(of: subject))
        let text = inOneLine(text(of: subject, depth: 2))
        var line = Line(
            number: row.number, time: (row.time.timeIntervalSince1970 * 1_000_000).rounded() / 1_000, kind: "event",
            type: type,
            text: cut(text.hasPrefix(type) ? String(text.dropFirst(type.count)) : text, to: Self.longestLine),
            origin: row.origin)
        switch row.source {
        case .store(let store): line.store = store
        case .dispatcher(let name): line.dispatcher = name
        }
        switch row.content {
        case .fired: break
        case .retried(_, _, let error):
            line.kind = "retry"
            line.error = cut(inOneLine(self.text(of: error)), to: Self.longestLine)
        case .ended(_, .completed): line.kind = "completed"
        case .ended(_, .cancelled): line.kind = "cancelled"
        case .ended(_, .dropped): line.kind = "dropped"
        case .ended(_, .failed(let error)):
            line.kind = "failed"
            line.error = cut(inOneLine(self.text(of: error)), to: Self.longestLine)
        case .applied(let applied):
            (line.kind, line.revision, line.nanoseconds) = (
                applied.kind.rawValue, applied.revision, applied.nanoseconds
            )
        }
        return line
    }

    /// All there is to say of a row.
    func detail(of row: Row) async -> Detail {
        await on(texts) {
            var detail = Detail(line: line(of: row), arguments: text(of: subject(of: row)), hasState: false)
            if case .applied(let applied) = row.content, let states = applied.states {
                detail.hasState = true
                detail.difference = difference(states.before, states.after)
            }
            return detail
        }
    }

    /// A state in full.
    func state(_ state: any FluxState) async -> String {
        await on(texts) { text(of: state) }
    }

    private func subject(of row: Row) -> Any {
        switch row.content {
        case .fired(let event), .retried(let event, _, _), .ended(let event, _): event
        case .applied(let applied): applied.action
        }
    }

    // MARK: - Texts

    private func text(of value: Any, depth: Int = .max) -> String {
        var text = ""
        customDump(shown(value), to: &text, maxDepth: depth)
        return cut(text, to: Self.longestText)
    }

    private func difference(_ before: Any, _ after: Any) -> String {
        cut(diff(shown(before), shown(after)) ?? "", to: Self.longestText)
    }

    private func shown(_ value: Any) -> Any {
        var walk = Shown.Walk()
        return hides.map { Shown.value(value, name: "", depth: 0, hides: $0, &walk) } ?? value
    }

    /// The name of a type, without its module and where in a function it is.
    private func name(of type: Any.Type) -> String {
        String(reflecting: type).split(separator: ".").dropFirst().filter { !$0.hasPrefix("(unknown context") }
            .joined(separator: ".")
    }

    private func inOneLine(_ text: String) -> String {
        text.split(separator: "\n").reduce(into: "") { line, next in
            let next = next.drop { $0 == " " }
            let isTight = line.isEmpty || "([".contains(line.suffix(1)) || ")]".contains(next.prefix(1))
            line += isTight ? next : " " + next
        }
    }

    private func cut(_ text: String, to length: Int) -> String {
        text.utf8.count > length ? text.prefix(length) + "…" : text
    }

    private func on<Value: Sendable>(_ queue: DispatchQueue, _ body: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in
            queue.async { continuation.resume(returning: body()) }
        }
    }
}

/// A value in which something may be hidden, as it is dumped.
private struct Shown: CustomDumpReflectable {
    /// Values may be in each other for as long as one likes.
    private static let deepest = 64

    /// The objects on the way.
    struct Walk {
        /// Those that what comes next is in.
        var path: Set<ObjectIdentifier> = []
        /// Those that were found somewhere.
        var known: Set<ObjectIdentifier> = []
        /// How often one may be shown again, elsewhere: where all know all, there is no end of ways.
        var left = 1_000

        /// Goes into an object; false: it is not shown in full again.
        mutating func enter(_ id: ObjectIdentifier) -> Bool {
            if !known.insert(id).inserted { left -= 1 }
            return left >= 0 && path.insert(id).inserted
        }
    }

    let customDumpMirror: Mirror

    /// What to dump in place of a value.
    static func value(
        _ value: Any, name: String, depth: Int, hides: (String, Any) -> Bool, _ walk: inout Walk
    ) -> Any {
        if hides(name, value) || depth > deepest { return Hidden() }
        if value is any CustomDumpStringConvertible { return value }
        if let other = value as? any CustomDumpRepresentable {
            return Shown.value(other.customDumpValue, name: name, depth: depth + 1, hides: hides, &walk)
        }
        // Objects may lead back to themselves.
        let object = type(of: value) is AnyClass ? value as AnyObject : nil
        if let object, !walk.enter(ObjectIdentifier(object)) { return Again(object: object) }
        defer { if let object { walk.path.remove(ObjectIdentifier(object)) } }
        let mirror = (value as? any CustomDumpReflectable)?.customDumpMirror ?? Mirror(reflecting: value)
        var all = Array(mirror.children)
        var parent = mirror.superclassMirror
        while let inherited = parent {
            all = inherited.children + all
            parent = inherited.superclassMirror
        }
        if all.isEmpty { return value }
        let isDictionary = mirror.displayStyle == .dictionary
        let children = all.map { child -> Mirror.Child in
            if isDictionary, let pair = child.value as? (key: AnyHashable, value: Any) {
                let name = String(describing: pair.key.base)
                let key = Shown.value(pair.key.base, name: "", depth: depth + 1, hides: hides, &walk)
                let value = Shown.value(pair.value, name: name, depth: depth + 1, hides: hides, &walk)
                return (nil, (key: AnyHashable(ShownKey(key: pair.key, customDumpValue: key)), value: value))
            }
            // What an optional holds has the name of that, and so have the values of a case that has one without a label.
            let label = child.label.flatMap { $0 == "some" || $0.hasPrefix(".") ? nil : $0 }
            let isElement = mirror.displayStyle == .collection || mirror.displayStyle == .set
            let inner = label ?? (isElement ? "" : name)
            return (child.label, Shown.value(child.value, name: inner, depth: depth + 1, hides: hides, &walk))
        }
        func mirrored<Subject>(_ value: Subject) -> Mirror {
            // An object is shown as a struct: it is not the object that is dumped.
            Mirror(
                value, children: children, displayStyle: mirror.displayStyle == .class ? .struct : mirror.displayStyle)
        }
        return Shown(customDumpMirror: _openExistential(value, do: mirrored))
    }
}

/// A key of a dictionary as it is dumped; it is found as itself, so that a difference has each by its own.
private struct ShownKey: Hashable, CustomDumpRepresentable {
    let key: AnyHashable
    let customDumpValue: Any

    static func == (one: ShownKey, other: ShownKey) -> Bool { one.key == other.key }
    func hash(into hasher: inout Hasher) { hasher.combine(key) }
}

/// Stands where an object is that was shown before.
private struct Again: CustomDumpStringConvertible, Equatable {
    let object: AnyObject

    var customDumpDescription: String { "\(type(of: object))(↩︎)" }
    static func == (one: Again, other: Again) -> Bool { one.object === other.object }
}

/// Stands where something was hidden.
private struct Hidden: CustomDumpStringConvertible, Equatable {
    var customDumpDescription: String { "•••" }
}
