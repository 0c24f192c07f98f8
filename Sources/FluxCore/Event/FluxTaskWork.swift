import Dispatch
import Synchronization

/// What its creator and its conversion do with a task: it begins, dispatches and ends.
nonisolated extension FluxTask {
    // MARK: - The work

    /// Calls the converter, unless the work has ended.
    ///
    /// - Parameters:
    ///   - task: The task, retained for whoever converts it: the count of a reference costs as much as a call.
    ///   - converter: Converts it.
    ///   - spare: What the converter leaves for the next.
    static func begin(_ task: Unmanaged<FluxTask>, _ converter: any FluxConverting, _ spare: inout AnyObject?) {
        if task._withUnsafeGuaranteedRef({ $0.start() }) { return converter.begin(task, &spare) }
        task._withUnsafeGuaranteedRef { $0.letGo() }
        task.release()
    }

    private func start() -> Bool {
        let before = gate.start()
        if before.isClosed { return false }
        if before.isWatched { tell() }
        parent?.partBegan()
        return true
    }

    private func partBegan() {
        if gate.start().isWatched { tell() }
    }

    /// Hands out the event, or the array of events; once.
    @usableFromInline
    func unload() -> any Sendable { fluxTake(&load) ?? () }

    /// It will not be converted.
    func letGo() {
        _ = unload()
    }

    /// Begins a dispatch, unless the work has ended; returns what `leave` has to be given.
    @usableFromInline
    func enter() -> Entry? {
        let before = gate.enter()
        if before.isTaken { return nil }
        let thread = FluxThreads.shared.current
        let entry = Entry(thread: thread, sending: thread.pointee.sending, origin: thread.pointee.origin)
        thread.pointee.sending = UnsafeRawPointer(fluxIdentity: self)
        thread.pointee.origin = before.isTraced ? origin : 0
        return entry
    }

    /// Ends a dispatch.
    @usableFromInline
    func leave(_ entry: Entry) {
        entry.thread.pointee.sending = entry.sending
        entry.thread.pointee.origin = entry.origin
        if gate.leave().isWatched { tell() }
        if let parent, parent.gate.count().isWatched { parent.tell() }
    }

    /// A dispatch under way on a thread, and what it is in the middle of.
    @usableFromInline
    struct Entry {
        fileprivate let thread: UnsafeMutablePointer<FluxThread>
        fileprivate let sending: UnsafeRawPointer?
        fileprivate let origin: UInt64
    }

    /// What its actions carry; 0 if nobody watched when it was fired.
    var origin: UInt64 { lock.withLock { $0.origin } }

    func retry(after attempt: Int, _ error: any Error) {
        lock.withLock { $0.note(attempt: attempt, error, sent: gate.word.sent) }
        tell()
        parent?.retry(after: attempt, error)
    }

    // MARK: - The Swift task

    /// Notes the Swift task that runs the conversion, to be cancelled with this.
    ///
    /// Nobody retains it, for most are never cancelled. So it must not end while somebody cancels it: it calls
    /// ``letRunnerGo()`` last.
    @usableFromInline
    func note(runner: _Concurrency.UnsafeCurrentTask?) {
        self.runner.store(Self.name(of: runner), ordering: .sequentiallyConsistent)
        // In one order with who closes and then looks for the runner: one of the two sees the other.
        if gate.wordInOrder.end == .cancelled { runner?.cancel() }
    }

    /// The conversion has returned; if somebody cancels it, waits until that one has let go of the Swift task.
    @usableFromInline
    func letRunnerGo() {
        if !isCancelled { return }
        while !isRunnerTold.load(ordering: .acquiring) {
            fluxWait(upTo: .seconds(1)) { isRunnerTold.load(ordering: .acquiring) }
        }
    }

    private func cancelRunner() {
        let runner = runner.load(ordering: .sequentiallyConsistent)
        if runner != 0 { unsafeBitCast(runner, to: _Concurrency.Task<Void, Never>.self).cancel() }
        isRunnerTold.store(true, ordering: .releasing)
    }

    /// Wakes those who look at its life.
    func tell() {
        for listener in lock.withLock({ $0.takeListeners() }) { listener.leave() }
    }

    /// What there is to see of its life behind a cursor.
    func look(after cursor: inout Machine.Cursor, else waiter: FluxLatch) -> Machine.Look {
        lock.withLock { machine in
            _ = gate.watch()
            let look = machine.next(after: &cursor, gate.word)
            if case .wait = look {
                waiter.enter()
                machine.listen(waiter)
            }
            return look
        }
    }

    // MARK: - Ending

    /// Ends the work unless it has ended; true: it had not.
    @usableFromInline @discardableResult
    func end(_ outcome: Outcome) -> Bool {
        let before = close(outcome)
        if before.isTaken { return false }
        hasClosed(before, outcome)
        return true
    }

    /// Ends the work with an error unless it has ended; tells of the error before anybody can see the end.
    func fail(_ error: any Error, telling: () -> Void) {
        if gate.claim().isTaken { return }
        telling()
        let before = lock.withLock { machine in
            machine.fail(error)
            return gate.closeClaimed(.failed)
        }
        hasClosed(before, .failed(error))
    }

    /// Sees to the end, outside every lock.
    private func hasClosed(_ before: FluxGate.Word, _ outcome: Outcome) {
        control?._withUnsafeGuaranteedRef { control in
            control.ended(self, outcome, isSupervised: before.isSupervised)
            if control.isSweepDue { return control.sweep(settling: self) }
            settle()
            if isRuled && control.isSweepDue { control.sweep() }
        }
        finish(outcome, isWatched: before.isWatched)
    }

    /// Ends the work, runs nobody's code, and returns what the gate said before.
    func close(_ outcome: Outcome) -> FluxGate.Word {
        switch outcome {
        case .completed: return gate.close(.completed)
        case .cancelled: return gate.close(.cancelled)
        case .dropped: return gate.close(.dropped)
        case .failed(let error):
            return lock.withLock { machine in
                // Only one can fail first: an error is kept before anybody can see that there is one.
                let word = gate.claim()
                if word.isTaken { return word }
                machine.fail(error)
                return gate.closeClaimed(.failed)
            }
        }
    }

    var isSettled: Bool { settled.load(ordering: .sequentiallyConsistent) }

    func settle() {
        if isRuled {
            settled.store(true, ordering: .sequentiallyConsistent)
        } else {
            settled.store(true, ordering: .releasing)
        }
    }

    /// Tells everybody that the work has ended, outside every lock.
    func finish(_ outcome: Outcome, isWatched: Bool) {
        if case .cancelled = outcome { cancelRunner() }
        if isWatched {
            for waiter in lock.withLock({ $0.close() }) { waiter.leave() }
        }
        guard let parent, let whole = parent.lock.withLock({ $0.partEnded(outcome) }) else { return }
        parent.end(whole.outcome)
        withExtendedLifetime(whole.parts) {}
    }

    /// Adds the task of one event of several.
    @usableFromInline
    func add(_ part: FluxTask) {
        lock.withLock { $0.add(part) }
    }
}
