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
        return before.isTaken ? nil : entry(isTraced: before.isTraced)
    }

    private func entry(isTraced: Bool) -> Entry {
        let thread = FluxThreads.shared.current
        let entry = Entry(thread: thread, sending: thread.pointee.sending, origin: thread.pointee.origin)
        thread.pointee.sending = UnsafeRawPointer(fluxIdentity: self)
        thread.pointee.origin = isTraced ? origin : 0
        return entry
    }

    /// Ends a dispatch.
    @usableFromInline
    func leave(_ entry: Entry) {
        entry.restore()
        if gate.leave().isWatched { tell() }
        parent?.partSent()
    }

    private func partSent() {
        if gate.count().isWatched { tell() }
    }

    /// A dispatch under way on a thread, and what it is in the middle of.
    @usableFromInline
    struct Entry {
        fileprivate let thread: UnsafeMutablePointer<FluxThread>
        fileprivate let sending: UnsafeRawPointer?
        fileprivate let origin: UInt64

        fileprivate func restore() {
            thread.pointee.sending = sending
            thread.pointee.origin = origin
        }
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
        guard let (before, outcome) = close(outcome) else { return false }
        hasClosed(before, outcome)
        return true
    }

    /// Ends the work with its last action, unless it has ended: who cancels it comes before that, or too late.
    func complete(dispatching dispatch: () -> Void) {
        let before = gate.claim(entering: true)
        if before.isTaken { return }
        let entry = entry(isTraced: before.isTraced)
        dispatch()
        entry.restore()
        let end = gate.closeClaimedLeaving(.completed)
        if end.isWatched { tell() }
        parent?.partSent()
        hasClosed(end, .completed)
    }

    /// Ends the work with an error unless it has ended; tells of the error before it ends, unless somebody cancels it.
    ///
    /// It has failed from here on: who cancels it ends it so, and waits for the action at most.
    ///
    /// - Parameters:
    ///   - error: What was thrown.
    ///   - dispatch: Dispatches the action that the error becomes, if any.
    ///   - telling: Tells of it.
    /// - Returns: Whether it had not ended.
    func fail(_ error: any Error, dispatching dispatch: (() -> Void)?, telling: () -> Void) -> Bool {
        let claimed = lock.withLock { machine in
            let before = gate.claim(entering: dispatch != nil)
            if !before.isTaken { machine.fail(error) }
            return before
        }
        if claimed.isTaken { return false }
        if let dispatch {
            let entry = entry(isTraced: claimed.isTraced)
            dispatch()
            leave(entry)
        }
        telling()
        let before = gate.closeClaimed(.failed)
        if !before.isClosed { hasClosed(before, .failed(error)) }
        return true
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

    /// Ends the work unless it has ended, and runs nobody's code.
    ///
    /// - Parameter outcome: How it is to end; one that has failed, and is only being told of, ends so.
    /// - Returns: What the gate said before, and how it ended; nil if it had, or is just ending with its last action.
    func close(_ outcome: Outcome) -> (before: FluxGate.Word, outcome: Outcome)? {
        let before: FluxGate.Word
        switch outcome {
        case .completed: before = gate.close(.completed)
        case .cancelled: before = gate.close(.cancelled)
        case .dropped: before = gate.close(.dropped)
        case .failed(let error):
            // Only one can fail first: an error is kept before anybody can see that there is one.
            before = lock.withLock { machine in
                let before = gate.claim(entering: false)
                if before.isTaken { return before }
                machine.fail(error)
                return gate.closeClaimed(.failed)
            }
        }
        if !before.isTaken { return (before, outcome) }
        guard !before.isClosed, let error = lock.withLock({ $0.error }) else { return nil }
        let late = gate.closeClaimed(.failed)
        return late.isClosed ? nil : (late, .failed(error))
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
