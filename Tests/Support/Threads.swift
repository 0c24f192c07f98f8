import Foundation
import Testing

/// A value under a lock, for tests; independent of the library's own lock.
public final class Locked<Value>: @unchecked Sendable {
    private let lock = NSLock()
    private var value: Value

    /// Puts a value under a lock.
    public init(_ value: Value) {
        self.value = value
    }

    /// Reads or changes the value, alone.
    public func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
        lock.lock()
        defer { lock.unlock() }
        return try body(&value)
    }

    /// The value as it is now.
    public var current: Value { withLock { $0 } }
}

/// Lets threads and tasks wait for one moment; once open it stays open.
///
/// Both waits give up loudly: a test that waits forever says nothing, and one that sleeps proves nothing.
public final class Gate: Sendable {
    private let state = Locked<(isOpen: Bool, waiting: [@Sendable () -> Void])>((false, []))
    /// What to say where it never opens; the test is known to what it makes itself.
    private let failure = "gate never opened, of \(Test.current?.name ?? "what a test has started")"

    /// A closed gate.
    public init() {}

    /// A gate that stops nobody.
    public static var open: Gate {
        let gate = Gate()
        gate.open()
        return gate
    }

    /// Whether it has been opened.
    public var isOpen: Bool { state.withLock { $0.isOpen } }

    /// Opens it for good, and lets all who wait go on.
    public func open() {
        let waiting = state.withLock { state in
            state.isOpen = true
            defer { state.waiting = [] }
            return state.waiting
        }
        waiting.forEach { $0() }
    }

    /// Blocks the calling thread until the gate opens.
    public func wait(file: StaticString = #fileID, line: UInt = #line) {
        let semaphore = DispatchSemaphore(value: 0)
        whenOpen { semaphore.signal() }
        guard semaphore.wait(timeout: .now() + 300) == .success else {
            fatalError(failure, file: file, line: line)
        }
    }

    /// Suspends the calling task until the gate opens.
    public func opened(file: StaticString = #fileID, line: UInt = #line) async {
        if isOpen { return }
        let isAwaited = Locked(true)
        let limit = DispatchWorkItem { [failure] in
            if isAwaited.current { fatalError(failure, file: file, line: line) }
        }
        DispatchQueue.global().asyncAfter(deadline: .now() + 300, execute: limit)
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in whenOpen { continuation.resume() } }
        } onCancel: {
            // Nobody waits for it any more, and it may stand here long after its test has passed.
            isAwaited.withLock { $0 = false }
        }
        // ThreadSanitizer sees by it what came before the gate was opened.
        state.withLock { _ in }
        limit.cancel()
    }

    private func whenOpen(_ body: @escaping @Sendable () -> Void) {
        let isOpen = state.withLock { state in
            if !state.isOpen { state.waiting.append(body) }
            return state.isOpen
        }
        if isOpen { body() }
    }
}

/// Opens a gate when it goes; captured by closures whose release is to be seen.
public final class Canary: Sendable {
    let gone: Gate

    /// A canary whose end opens the gate.
    public init(_ gone: Gate) {
        self.gone = gone
    }

    deinit {
        gone.open()
    }
}

/// Runs a body on threads of its own, all started at the same moment, and waits for all.
public func onThreads(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) async {
    let start = Gate()
    let running = Locked(count)
    await withCheckedContinuation { continuation in
        for index in 0..<count {
            let thread = Thread {
                start.wait()
                body(index)
                if running.withLock({
                    $0 -= 1; return $0 == 0
                }) {
                    continuation.resume()
                }
            }
            thread.start()
        }
        start.open()
    }
    // ThreadSanitizer sees by it what the threads have done.
    running.withLock { _ in }
}

/// Collects values, and lets a test wait for a number of them.
public final class Recorder<Value: Sendable>: Sendable {
    private let state = Locked<(values: [Value], gates: [(count: Int, gate: Gate)])>(([], []))

    /// A recorder that has nothing yet.
    public init() {}

    /// What was recorded, in order.
    public var values: [Value] { state.withLock { $0.values } }

    /// Adds a value, and wakes whom it is the last for.
    public func record(_ value: Value) {
        let due = state.withLock { state in
            state.values.append(value)
            let due = state.gates.filter { $0.count <= state.values.count }
            state.gates.removeAll { $0.count <= state.values.count }
            return due
        }
        due.forEach { $0.gate.open() }
    }

    /// Suspends until so many values were recorded; gives up loudly.
    public func count(_ count: Int, file: StaticString = #fileID, line: UInt = #line) async {
        let gate = Gate()
        state.withLock { state in
            if state.values.count >= count { gate.open() } else { state.gates.append((count, gate)) }
        }
        await gate.opened(file: file, line: line)
    }
}

extension Recorder<Int> {
    /// Whether exactly the numbers from 1 to another were recorded, in order; says less than two arrays when it fails.
    public func isCounting(to last: Int) -> Bool {
        values == Array(1...last)
    }
}
