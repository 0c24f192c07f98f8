import Dispatch
import FluxCore
import Synchronization
import Testing

@testable import FluxObservation

/// Takers of turns on one queue, which runs nothing before all of them have been added.
@Suite struct FluxTurnsTests {
    private final class Line: Sendable {
        let queue = DispatchQueue(label: "turns", attributes: .initiallyInactive)
        let taken = FluxLock<[String]>([])
        let over = DispatchSemaphore(value: 0)
        let turns: FluxTurns

        init() { turns = FluxTurns(queue, isUsers: false) }

        /// Activates the queue, and returns the takers whose turns came before a block that was added after them.
        func next() async -> [String] {
            await withCheckedContinuation { continuation in
                queue.async { continuation.resume(returning: self.taken.withLock { $0 }) }
                queue.activate()
            }
        }
    }

    private final class Taker: FluxTurn {
        let name: String
        let line: Line
        let pauses: Atomic<Int>
        let whileTaking: @Sendable () -> Void

        init(_ name: String, in line: Line, pauses: Int = 0, _ whileTaking: @escaping @Sendable () -> Void = {}) {
            (self.name, self.line, self.whileTaking) = (name, line, whileTaking)
            self.pauses = Atomic(pauses)
        }

        func takeTurn() -> Bool {
            line.taken.withLock { $0.append(name) }
            whileTaking()
            let isLast = pauses.subtract(1, ordering: .relaxed).oldValue <= 0
            if isLast { line.over.signal() }
            return isLast
        }
    }

    @Test func `Only the first taker has to be settled, and all take their turns in one block, in order`() async {
        let line = Line()
        #expect(line.turns.add(Taker("a", in: line)))
        #expect(!line.turns.add(Taker("b", in: line)))
        line.turns.settle()
        line.turns.settle()
        #expect(!line.turns.add(Taker("c", in: line)))
        // A block after the single block of the turns sees all of them.
        #expect(await line.next() == ["a", "b", "c"])
    }

    @Test func `A taker that is added during a turn gets its own turn without being settled`() async {
        let line = Line()
        let late = Taker("late", in: line)
        _ = line.turns.add(Taker("a", in: line) { #expect(!line.turns.add(late)) })
        line.turns.settle()
        #expect(await line.next() == ["a", "late"])
        #expect(line.turns.add(late))
    }

    @Test func `A taker that pauses gets another turn behind the others, and the queue is free in between`() async {
        let line = Line()
        _ = line.turns.add(Taker("a", in: line, pauses: 1))
        _ = line.turns.add(Taker("b", in: line))
        line.turns.settle()
        #expect(await line.next() == ["a", "b"])
        for _ in 0..<2 {
            await withCheckedContinuation { continuation in
                DispatchQueue.global().async {
                    line.over.wait()
                    continuation.resume()
                }
            }
        }
        #expect(line.taken.withLock { $0 } == ["a", "b", "a"])
    }

    @Test func `Handlers of one store are called in the order in which they subscribed, change by change`() async {
        let store = FluxStore(initialState: Number(), dispatcher: nil)
        let calls = FluxLock<[[Int]]>([])
        let tokens = (0..<5).map { index in
            store.subscribe(to: { $0.value }) { value in calls.withLock { $0.append([value, index]) } }
        }
        for _ in 1...3 {
            store.dispatch(action: .add)
            await store.flush()
        }
        #expect(calls.withLock { $0 } == (1...3).flatMap { value in (0..<5).map { [value, $0] } })
        withExtendedLifetime(tokens) {}
    }

    private struct Number: FluxState {
        enum Action: FluxAction { case add }
        var value = 0

        mutating func handle(action: Action) -> Number? {
            value += 1
            return self
        }
    }
}
