import CustomDump
import Dispatch
import FluxCore
import Foundation

/// The line of the page for a row.
struct Line: Encodable, Sendable {
    var number: UInt64
    /// In milliseconds since 1970.
    var time: Double
    /// The kind of row: `event`, `retry`, the outcome of an event, or how a state was changed.
    var kind: String
    /// The type of the event or action.
    var type: String
    /// Its arguments in one line, shortened if long.
    var text: String
    var store: Int?
    var dispatcher: String?
    var origin: UInt64?
    var revision: UInt64?
    var nanoseconds: UInt64?
    var error: String?
}

/// Everything about a row.
struct Detail: Encodable, Sendable {
    var line: Line
    /// The event or action in full.
    var arguments: String
    /// The difference that it made to the state; nil if there is nothing to compare.
    var difference: String?
    /// Whether the row has a state to show.
    var hasState: Bool
}

/// Renders recorded values as text, without the values to be hidden.
struct Rendering: Sendable {
    private static let longestLine = 200
    private static let longestText = 1_000_000

    let hides: (@Sendable (_ name: String, _ value: Any) -> Bool)?
    /// Rendering a large value takes a while, so it happens one at a time, off the threads that serve other requests.
    private let lines = DispatchQueue(label: "FluxInspector.lines", qos: .utility)
    private let texts = DispatchQueue(label: "FluxInspector.texts", qos: .utility)

    init(hides: (@Sendable (_ name: String, _ value: Any) -> Bool)?) {
        self.hides = hides
    }

    // MARK: - Rows

    /// Returns the lines of rows.
    func lines(of rows: [Row]) async throws -> [Line] {
        try await on(lines) { rows.map { line(of: $0) } }
    }

    /// Returns the line of a row, created on first use.
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

    /// Returns everything about a row.
    func detail(of row: Row) async throws -> Detail {
        try await on(texts) {
            var detail = Detail(line: line(of: row), arguments: text(of: subject(of: row)), hasState: false)
            if case .applied(let applied) = row.content, let states = applied.states {
                detail.hasState = true
                detail.difference = difference(states.before, states.after)
            }
            return detail
        }
    }

    /// Returns the text of a whole state.
    func state(_ state: any FluxState) async throws -> String {
        try await on(texts) { text(of: state) }
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
        // A line has little room.
        let walk = depth == .max ? Shown.Walk() : Shown.Walk(left: 200)
        customDump(shown(value, walk).value, to: &text, maxDepth: depth)
        return cut(text, to: Self.longestText)
    }

    private func difference(_ before: Any, _ after: Any) -> String {
        var sides = (shown(before), shown(after))
        // The time to compare is proportional to the product of the numbers of added and removed lines.
        let lines = (Self.lines(of: sides.0.value), Self.lines(of: sides.1.value))
        if min(lines.0.subtracting(lines.1).count, lines.1.subtracting(lines.0).count) > 500 {
            sides = (shown(before, Shown.Walk(left: 500)), shown(after, Shown.Walk(left: 500)))
        }
        let text = cut(diff(sides.0.value, sides.1.value) ?? "", to: Self.longestText)
        guard sides.0.isCut || sides.1.isCut else { return text }
        return "  // Too large to compare completely: differences in omitted parts are not shown.\n" + text
    }

    private static func lines(of value: Any) -> Set<Substring> {
        var text = ""
        customDump(value, to: &text)
        return Set(text.split(separator: "\n"))
    }

    private func shown(_ value: Any, _ walk: Shown.Walk = .init()) -> (value: Any, isCut: Bool) {
        var walk = walk
        return (Shown.value(value, name: "", depth: 0, hides: hides ?? { _, _ in false }, &walk), walk.isCut)
    }

    /// The name of a type, without its module and the function in which it is declared.
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
        // The first check takes no time, however long the text is.
        guard text.utf8.count > length,
            let end = text.index(text.startIndex, offsetBy: length, limitedBy: text.endIndex), end < text.endIndex
        else { return text }
        return text[..<end] + "…"
    }

    /// Runs a closure on a queue, unless the calling task has been cancelled when its turn comes.
    private func on<Value: Sendable>(
        _ queue: DispatchQueue, _ body: @escaping @Sendable () -> Value
    ) async throws -> Value {
        let isGone = FluxLock(false)
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                queue.async {
                    continuation.resume(with: isGone.withLock { $0 } ? .failure(CancellationError()) : .success(body()))
                }
            }
        } onCancel: {
            isGone.withLock { $0 = true }
        }
    }
}

/// A value prepared for a dump: some parts may be hidden, and its size is limited.
private struct Shown: CustomDumpReflectable, Identifiable {
    /// The maximum depth, because values may be nested without limit.
    private static let deepest = 64

    /// The state of a walk through a value.
    struct Walk {
        /// The objects that contain the current value.
        var path: Set<ObjectIdentifier> = []
        /// All objects found so far.
        var known: Set<ObjectIdentifier> = []
        /// How often objects may be shown again elsewhere: if all refer to each other, the paths are endless.
        var again = 1_000
        /// How many more values may be shown; each line and each 100 bytes of a text count as a value.
        var left = 10_000
        /// Whether something was left out.
        var isCut = false

        /// Enters an object; returns false if the object is not shown in full again.
        mutating func enter(_ id: ObjectIdentifier) -> Bool {
            if !known.insert(id).inserted { again -= 1 }
            return again >= 0 && path.insert(id).inserted
        }

        /// Returns a mark for what is left out.
        mutating func more(_ text: String = "") -> Mark {
            isCut = true
            return Mark(customDumpDescription: "…" + text)
        }

        /// Returns a text, whose end may be left out.
        mutating func text(_ text: String) -> String {
            let most = left - left / 2
            let start = text.utf8.prefix(most * 100)
            let lines = String(decoding: start, as: UTF8.self)
                .split(separator: "\n", maxSplits: most, omittingEmptySubsequences: false)
            left -= min(most, lines.count - 1 + start.count / 100)
            if start.count == text.utf8.count && lines.count <= most { return text }
            isCut = true
            return lines.prefix(most).joined(separator: "\n") + "…"
        }
    }

    /// The value's id, by which a difference tells moved values from changed ones; unique if the value has none.
    let id: AnyHashable
    let customDumpMirror: Mirror

    /// Returns what to dump in place of a value.
    static func value(
        _ value: Any, name: String, depth: Int, hides: (String, Any) -> Bool, _ walk: inout Walk
    ) -> Any {
        if hides(name, value) { return Mark(customDumpDescription: "•••") }
        if depth > deepest { return walk.more() }
        if value is any CustomDumpStringConvertible { return value }
        if let text = value as? any StringProtocol { return walk.text(String(text)) }
        if let other = value as? any CustomDumpRepresentable {
            return Shown.value(other.customDumpValue, name: name, depth: depth + 1, hides: hides, &walk)
        }
        // Objects may refer back to themselves.
        let object = type(of: value) is AnyClass ? value as AnyObject : nil
        if let object, !walk.enter(ObjectIdentifier(object)) { return Again(object: object) }
        defer { if let object { walk.path.remove(ObjectIdentifier(object)) } }
        let mirror = (value as? any CustomDumpReflectable)?.customDumpMirror ?? Mirror(reflecting: value)
        var all = [mirror.children]
        var parent = mirror.superclassMirror
        while let inherited = parent {
            all.insert(inherited.children, at: 0)
            parent = inherited.superclassMirror
        }
        let count = all.reduce(0) { $0 + $1.count }
        if count == 0 { return value }
        let isDictionary = mirror.displayStyle == .dictionary
        let isMany = isDictionary || mirror.displayStyle == .collection || mirror.displayStyle == .set
        // A large collection leaves room for the values that follow it.
        let reserve = isMany ? walk.left / 2 : 0
        var children: [Mirror.Child] = []
        for child in all.joined() {
            if walk.left <= reserve {
                let more = walk.more(count - children.count > 1 ? " \(count - children.count) more" : "")
                let key = AnyHashable(ShownKey(key: "…", customDumpValue: Mark(customDumpDescription: "…")))
                children.append((nil, isDictionary ? (key: key, value: more) : more))
                break
            }
            walk.left -= 1
            if isDictionary, let pair = child.value as? (key: AnyHashable, value: Any) {
                let name = String(describing: pair.key.base)
                let key = Shown.value(pair.key.base, name: "", depth: depth + 1, hides: hides, &walk)
                let value = Shown.value(pair.value, name: name, depth: depth + 1, hides: hides, &walk)
                children.append((nil, (key: AnyHashable(ShownKey(key: pair.key, customDumpValue: key)), value: value)))
                continue
            }
            // The value in an optional is named like the optional, and unlabelled associated values like their case.
            let label = child.label.flatMap { $0 == "some" || $0.hasPrefix(".") ? nil : $0 }
            let inner = label ?? (isMany ? "" : name)
            children.append(
                (child.label, Shown.value(child.value, name: inner, depth: depth + 1, hides: hides, &walk)))
        }
        func mirrored<Subject>(_ value: Subject) -> Mirror {
            // An object is shown as a struct, because the dumped value is not the object itself.
            Mirror(
                value, children: children, displayStyle: mirror.displayStyle == .class ? .struct : mirror.displayStyle)
        }
        func identity<Subject: Identifiable>(of value: Subject) -> AnyHashable { AnyHashable(value.id) }
        let id = (value as? any Identifiable).map { identity(of: $0) } ?? AnyHashable(UUID())
        return Shown(id: id, customDumpMirror: _openExistential(value, do: mirrored))
    }
}

/// A dictionary key as it is dumped; it equals by its original key, so a difference compares values key by key.
private struct ShownKey: Hashable, CustomDumpRepresentable {
    let key: AnyHashable
    let customDumpValue: Any

    static func == (one: ShownKey, other: ShownKey) -> Bool { one.key == other.key }
    func hash(into hasher: inout Hasher) { hasher.combine(key) }
}

/// Stands for an object that was shown before.
private struct Again: CustomDumpStringConvertible, Equatable {
    let object: AnyObject

    var customDumpDescription: String { "\(type(of: object))(↩︎)" }
    static func == (one: Again, other: Again) -> Bool { one.object === other.object }
}

/// Stands for something that was hidden or left out.
private struct Mark: CustomDumpStringConvertible, Equatable {
    let customDumpDescription: String
}
