import Foundation
import Testing

/// A value protected by a lock, for tests; independent of the library's own lock.
public final class Locked<Value>: @unchecked Sendable {
    private let lock = NSLock()
    private var value: Value

    /// Creates a lock around a value.
    public init(_ value: Value) {
        self.value = value
    }

    /// Reads or changes the value while holding the lock.
    public func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
        lock.lock()
        defer { lock.unlock() }
        return try body(&value)
    }

    /// The current value.
    public var current: Value { withLock { $0 } }
}

/// Lets threads and tasks wait for one moment; once open, it stays open.
///
/// Both waits stop the program after five minutes: a wait without a limit reports nothing, and a sleep proves nothing.
public final class Gate: Sendable {
    private let state = Locked<(isOpen: Bool, waiting: [@Sendable () -> Void])>((false, []))
    /// The message if the gate never opens; it names the test only if a task of that test creates the gate.
    private let failure = "gate never opened, of \(Test.current?.name ?? "what a test has started")"

    /// Creates a closed gate.
    public init() {}

    /// A gate that is already open.
    public static var open: Gate {
        let gate = Gate()
        gate.open()
        return gate
    }

    /// Whether the gate has been opened.
    public var isOpen: Bool { state.withLock { $0.isOpen } }

    /// Opens the gate permanently and resumes everything that waits for it.
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
            // A cancelled task may stay suspended here long after its test has passed, which is no failure.
            isAwaited.withLock { $0 = false }
        }
        // Shows ThreadSanitizer that everything before the call of `open` happened first.
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

/// Opens a gate when it is released; captured by closures whose release a test has to observe.
public final class Canary: Sendable {
    let gone: Gate

    /// Creates a canary that opens the gate when it is released.
    public init(_ gone: Gate) {
        self.gone = gone
    }

    deinit {
        gone.open()
    }
}

/// Runs a body on several new threads, all started at the same moment, and waits for all of them.
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
    // Shows ThreadSanitizer that the work of all threads happened first.
    running.withLock { _ in }
}

/// Collects values, and lets a test wait for a number of them.
public final class Recorder<Value: Sendable>: Sendable {
    private let state = Locked<(values: [Value], gates: [(count: Int, gate: Gate)])>(([], []))

    /// Creates an empty recorder.
    public init() {}

    /// The recorded values, in order.
    public var values: [Value] { state.withLock { $0.values } }

    /// Adds a value, and resumes the tasks that waited for this number of values.
    public func record(_ value: Value) {
        let due = state.withLock { state in
            state.values.append(value)
            let due = state.gates.filter { $0.count <= state.values.count }
            state.gates.removeAll { $0.count <= state.values.count }
            return due
        }
        due.forEach { $0.gate.open() }
    }

    /// Suspends until this many values have been recorded; stops the program if that takes too long.
    public func count(_ count: Int, file: StaticString = #fileID, line: UInt = #line) async {
        let gate = Gate()
        state.withLock { state in
            if state.values.count >= count { gate.open() } else { state.gates.append((count, gate)) }
        }
        await gate.opened(file: file, line: line)
    }
}

extension Recorder<Int> {
    /// Returns whether exactly 1 to a number were recorded, in order; a failure prints less than comparing two arrays.
    public func isCounting(to last: Int) -> Bool {
        values == Array(1...last)
    }
}
