import FluxCore
import FluxRouting
import TestSupport

/// A test's member, with its key and the number of the attempt that created it.
final class Desk: Sendable {
    let key: String
    let number: Int
    let canary: Canary

    init(_ key: String, _ number: Int, _ canary: Canary) {
        (self.key, self.number, self.canary) = (key, number, canary)
    }
}

/// Creates and closes desks as a test prescribes, and records the steps.
final class Desks: Sendable {
    struct Refusal: Error, Equatable {
        var key = ""
    }

    private struct State {
        var gates: [String: Gate] = [:]
        var refusals: Set<String> = []
        var gone: [Int: Gate] = [:]
    }

    private let state = Locked(State())
    let clock = TestClock()
    /// "make a", "made a", "close a", "closed a", in that order.
    let seen = Recorder<String>()
    let failures = Recorder<String>()

    /// Makes one step, "make a" or "close a", wait for a gate.
    @discardableResult func block(_ step: String) -> Gate {
        let gate = Gate()
        state.withLock { $0.gates[step] = gate }
        return gate
    }

    func refuse(_ step: String, _ isRefused: Bool = true) {
        state.withLock { state in
            state.refusals.remove(step)
            if isRefused { state.refusals.insert(step) }
        }
    }

    /// A gate that opens once the desk with this number is released.
    func gone(_ number: Int) -> Gate {
        state.withLock { state in
            let gate = state.gone[number] ?? Gate()
            state.gone[number] = gate
            return gate
        }
    }

    func count(_ step: String) -> Int { seen.values.count { $0 == step } }

    private func perform(_ step: String) async throws -> Int {
        seen.record(step)
        let number = count(step)
        await state.withLock { $0.gates[step] }?.opened()
        if state.withLock({ $0.refusals.contains(step) }) { throw Refusal(key: step) }
        return number
    }

    func family(idle: Duration = .seconds(60), limit: Int = .max) -> FluxFamily<String, Desk> {
        FluxFamily(idle: idle, limit: limit, clock: clock) { [failures] key, error in
            failures.record("\(key): \(error)")
        } make: { [self] (key: String) in
            let number = try await perform("make \(key)")
            seen.record("made \(key)")
            return Desk(key, number, Canary(gone(number)))
        } close: { [self] desk in
            _ = try await perform("close \(desk.key)")
            seen.record("closed \(desk.key)")
        }
    }
}

extension FluxFamily {
    /// The next changes of the family while a body runs.
    func changes(_ count: Int, while body: () async throws -> Void) async rethrows -> [FluxFamilyChange<Key>] {
        var iterator = changes.makeAsyncIterator()
        try await body()
        var seen: [FluxFamilyChange<Key>] = []
        while seen.count < count, let change = await iterator.next() { seen.append(change) }
        return seen
    }
}
