import FluxCore
import Testing

@testable import FluxEffects

/// An event with a name: the first letter is its key, and a name that begins with "-" has none.
struct Named: FluxEvent, ExpressibleByStringLiteral {
    let name: String

    init(stringLiteral name: String) {
        self.name = name
    }

    static let letter: FluxRule<Named>.Key = { $0.name.first == "-" ? nil : $0.name.first.map(String.init) }
    /// A condition that holds for two events if both names contain "!".
    static let areLoud: FluxRule<Named>.Condition = { $0.name.contains("!") && $1.name.contains("!") }
}

/// Drives a rule machine with lines of text; ids count from 1 in the order fired.
///
/// | input          | meaning                                                  |
/// |----------------|----------------------------------------------------------|
/// | `a`            | fires an event of this name                              |
/// | `end 1`        | event 1 has ended                                        |
/// | `time 0a`      | the timer of rule 0 and key a has elapsed                |
/// | `at 5`         | the time is now five seconds after the start             |
final class RuleRig {
    private var machine: FluxRuleMachine
    private let rules: [FluxRuleForm]
    private var lastID: UInt64 = 0
    private var now = Duration.zero

    init(_ rules: [FluxRule<Named>]) {
        self.rules = rules.map(\.form)
        machine = FluxRuleMachine(rules: self.rules)
    }

    var weight: Int { machine.weight }

    func fire(_ event: Named) -> [FluxRuleMachine.Effect] {
        lastID += 1
        return machine.fire(lastID, event, keys: rules.map { $0.key(event).map { AnyHashable($0) } }, at: now)
    }

    func ended(_ id: UInt64) -> [FluxRuleMachine.Effect] { machine.ended(id, at: now) }

    private static func timer(_ name: Substring) -> FluxRuleMachine.Timer {
        .init(rule: Int(name.prefix(1))!, key: AnyHashable(String(name.dropFirst())))
    }

    private func passTime(until moment: Duration) -> [FluxRuleMachine.Effect] {
        now = moment
        return []
    }

    /// Returns the effects of one line of input, as text.
    func input(_ line: String) -> String {
        let words = line.split(separator: " ")
        let effects =
            switch words[0] {
            case "end": ended(UInt64(words[1])!)
            case "time": machine.elapsed(Self.timer(words[1]), at: now)
            case "at": passTime(until: .seconds(Int(words[1])!))
            default: fire(Named(stringLiteral: line))
            }
        return effects.map(Self.text).joined(separator: ", ")
    }

    /// Expects these effects of each line of input.
    func expect(_ table: [(String, String)], sourceLocation: SourceLocation = #_sourceLocation) {
        for (number, (line, effects)) in table.enumerated() {
            let found = input(line)
            #expect(found == effects, "line \(number): \(line)", sourceLocation: sourceLocation)
        }
    }

    static func text(_ effect: FluxRuleMachine.Effect) -> String {
        switch effect {
        case .start(let id): "start \(id)"
        case .end(let id, let outcome): "\(outcome) \(id)"
        case .sleep(let timer, let deadline): "sleep \(timer.rule)\(timer.key.base) \(deadline.components.seconds)"
        case .wake(let timer): "wake \(timer.rule)\(timer.key.base)"
        }
    }
}

extension FluxRuleMachine {
    /// How many items the machine keeps, of any kind; 0 when all events have ended and all timers have elapsed.
    var weight: Int {
        let events = entries.values.reduce(0) { $0 + 1 + $1.blockers.count + $1.dependents.count }
        return groups.reduce(events) { $0 + $1.values.reduce(0) { $0 + 1 + $1.members.count + $1.held.count } }
    }
}
