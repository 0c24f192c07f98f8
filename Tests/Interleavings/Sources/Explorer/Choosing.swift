/// Decides who goes on where several threads can.
protocol Choosing: AnyObject {
    /// Chooses one.
    ///
    /// - Parameters:
    ///   - ready: Who can go on, in the order in which they began.
    ///   - straight: Who goes on if nothing speaks against it.
    ///   - isPreemption: Whether any other choice makes a thread wait that could go on.
    ///   - object: What the next step is about; nil where it may be about anything.
    /// - Returns: One of those that are ready.
    func choose(among ready: [VirtualThread], _ straight: VirtualThread, isPreemption: Bool, at object: Shared?)
        -> VirtualThread
    /// The run is over.
    func ended()
}

/// Another choice than to go straight on: all that a schedule has to keep.
struct Turn {
    let choice: Int
    let thread: Int
}

/// What came of a run.
struct Run {
    let failure: String?
    let turns: [Turn]
    let choices: Int
}

/// Goes straight on wherever it is not told to turn.
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

/// Goes through all schedules with so many preemptions at most, depth first (Musuvathi and Qadeer 2007).
///
/// Where only one thread ever meets an object no other is tried: the schedules would differ in nothing that can be seen.
final class Systematic: Choosing {
    private struct Choice {
        /// The numbers of those who could go on, the straight one first.
        let ready: [Int]
        var index = 0
        /// What the next step is about, in the last run.
        var object: Shared?
        /// Whether several threads met there, in any run that began like this.
        var isContended: Bool
    }

    private let bound: Int
    private var choices: [Choice] = []
    private var depth = 0
    private var preemptions = 0
    /// How many runs did not go the way that their beginning had gone before: something in them is not decided here.
    private(set) var diverged = 0
    private var hasDiverged = false

    init(bound: Int) { self.bound = bound }

    func choose(among ready: [VirtualThread], _ straight: VirtualThread, isPreemption: Bool, at object: Shared?)
        -> VirtualThread
    {
        // What is not to be tried is no choice.
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

    /// Goes to the next schedule; false: that was the last.
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

/// Gives threads priorities by chance, and changes a few at steps chosen by chance: PCT, of Burckhardt and others, 2010.
final class ByPriority: Choosing {
    private var random: SplitMix
    private var priorities: [Int: UInt64] = [:]
    private var changes: Set<Int>
    private var count = 0
    private var lowest: UInt64 = 1_000

    /// Begins a run.
    ///
    /// - Parameters:
    ///   - seed: What all chance comes from.
    ///   - length: How many choices a run has, about.
    ///   - depth: How many orderings of steps a bug may need; one less is how often a priority changes.
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
        return ready.max { priorities[$0.number]! < priorities[$1.number]! }!
    }

    func ended() {}
}

/// A generator of random numbers that the same seed makes the same anywhere.
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
