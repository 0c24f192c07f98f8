/// Decides which thread continues when several can.
protocol Choosing: AnyObject {
    /// Chooses a thread.
    ///
    /// - Parameters:
    ///   - ready: The threads that can continue, in the order in which they began.
    ///   - straight: The thread that continues by default.
    ///   - isPreemption: Whether any other choice makes a thread wait that could continue.
    ///   - object: The object of the next step; nil if the step may concern any object.
    /// - Returns: One of the ready threads.
    func choose(among ready: [VirtualThread], _ straight: VirtualThread, isPreemption: Bool, at object: Shared?)
        -> VirtualThread
    /// Called when the run is over.
    func ended()
}

/// A choice that differs from the default; a schedule consists only of these.
struct Turn {
    let choice: Int
    let thread: Int
}

/// The result of a run.
struct Run {
    let failure: String?
    let turns: [Turn]
    let choices: Int
}

/// Makes the default choice, except at the given turns.
final class Straight: Choosing {
    private let turns: [Int: Int]
    private var count = 0

    init(_ turns: [(choice: Int, thread: Int)] = []) {
        self.turns = Dictionary(turns.map { ($0.choice, $0.thread) }) { first, _ in first }
    }

    func choose(among ready: [VirtualThread], _ straight: VirtualThread, isPreemption: Bool, at object: Shared?)
        -> VirtualThread
    {
        defer { count += 1 }
        guard let number = turns[count] else { return straight }
        return ready.first { $0.number == number } ?? straight
    }

    func ended() {}
}

/// Tries all schedules with a limited number of preemptions, depth first (Musuvathi and Qadeer 2007).
///
/// If only one thread ever uses an object, no other choice is tried there: the schedules would not differ visibly.
final class Systematic: Choosing {
    private struct Choice {
        /// The numbers of the threads that could continue, the default one first.
        let ready: [Int]
        var index = 0
        /// The object of the next step, in the last run.
        var object: Shared?
        /// Whether several threads used that object, in any run with this beginning.
        var isContended: Bool
    }

    private let bound: Int
    private var choices: [Choice] = []
    private var depth = 0
    private var preemptions = 0
    /// How many runs left the path that their beginning had taken before, because the explorer does not control
    /// everything in them.
    private(set) var diverged = 0
    private var hasDiverged = false

    init(bound: Int) { self.bound = bound }

    func choose(among ready: [VirtualThread], _ straight: VirtualThread, isPreemption: Bool, at object: Shared?)
        -> VirtualThread
    {
        // With no preemption left, nothing else is tried here.
        if isPreemption && preemptions == bound { return straight }
        if depth == choices.count {
            let numbers = [straight.number] + ready.map(\.number).filter { $0 != straight.number }
            choices.append(Choice(ready: numbers, object: object, isContended: object == nil || !isPreemption))
        }
        choices[depth].object = object
        let choice = choices[depth]
        depth += 1
        guard let chosen = ready.first(where: { $0.number == choice.ready[choice.index] }) else {
            hasDiverged = true
            return straight
        }
        if isPreemption && chosen !== straight { preemptions += 1 }
        return chosen
    }

    func ended() {
        if hasDiverged || depth < choices.count { diverged += 1 }
        for index in choices.indices where choices[index].object?.isContended == true {
            choices[index].isContended = true
        }
        (depth, preemptions, hasDiverged) = (0, 0, false)
    }

    /// Moves to the next schedule; returns false if there is none.
    func advance() -> Bool {
        while let last = choices.last {
            if last.isContended && last.index + 1 < last.ready.count {
                choices[choices.count - 1].index += 1
                return true
            }
            choices.removeLast()
        }
        return false
    }
}

/// Gives threads random priorities, and changes a few of them at random steps: PCT, Burckhardt and others, 2010.
final class ByPriority: Choosing {
    private var random: SplitMix
    private var priorities: [Int: UInt64] = [:]
    private var changes: Set<Int>
    private var count = 0
    private var lowest: UInt64 = 1_000

    /// Prepares a run.
    ///
    /// - Parameters:
    ///   - seed: The seed of all random numbers.
    ///   - length: The approximate number of choices in a run.
    ///   - depth: The number of ordering constraints that a bug may need; priorities change one time less.
    init(seed: UInt64, length: Int, depth: Int) {
        var random = SplitMix(state: seed)
        changes = Set((1..<depth).map { _ in Int(random.next() % UInt64(max(length, 1))) })
        self.random = random
    }

    func choose(among ready: [VirtualThread], _ straight: VirtualThread, isPreemption: Bool, at object: Shared?)
        -> VirtualThread
    {
        for thread in ready where priorities[thread.number] == nil {
            priorities[thread.number] = 1_000 + random.next() % 1_000_000
        }
        if changes.contains(count) {
            lowest -= 1
            priorities[straight.number] = lowest
        }
        count += 1
        // Otherwise a thread that tries again and again could keep those of lower priority waiting forever.
        if count > 2_000 { return ready[Int(random.next() % UInt64(ready.count))] }
        return ready.max { priorities[$0.number]! < priorities[$1.number]! }!
    }

    func ended() {}
}

/// A random number generator that produces the same numbers for a seed on every machine.
struct SplitMix {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = state
        value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
        return value ^ (value >> 31)
    }
}
