import FluxCore
import FluxObservation
import FluxReplication
import FluxRouting
import FluxTesting
import TestSupport
import Testing

/// The guarantees to users of a replica, on a log in memory.
@Suite(.timeLimit(.minutes(2))) struct ReplicaTests {
    @Test("A dispatch returns its position once its node has applied it, and all nodes reach the same state")
    func everybodyHasIt() async throws {
        let log = FluxTestLog()
        let (one, other) = (try await join(log), try await join(log))
        for number in 1...3 {
            let position = try await one.dispatch(action: [1, UInt8(number)])
            #expect(one.lines.last == [1, UInt8(number)] && one.position == position)
        }
        try await other.dispatch(action: [2, 1])
        #expect(other.lines == [[1, 1], [1, 2], [1, 3], [2, 1]])
        try await one.upToDate()
        #expect(one.store.state == other.store.state && one.position == other.position)
        #expect(one.lag == 0 && one.status.state.condition == .following)
        #expect(one.store.revision == 5)
    }

    @Test("An action whose append got no answer is applied once, however often it is in the log", arguments: 0..<20)
    func onceEach(seed: UInt64) async throws {
        var faults = FluxTestLog.Faults.many
        faults.unanswered = 30
        let log = FluxTestLog(seed: seed, faults: faults, window: 2)
        let (one, other) = (try await join(log), try await join(log))
        for number in 1...20 {
            async let first = one.dispatch(action: [1, UInt8(number)], within: .seconds(100))
            async let second = other.dispatch(action: [2, UInt8(number)], within: .seconds(100))
            _ = try await (first, second)
        }
        try await one.upToDate(within: .seconds(100))
        try await other.upToDate(within: .seconds(100))
        #expect(one.lines == other.lines)
        for client in UInt8(1)...2 {
            #expect(one.lines.filter { $0.client == client }.map(\.number) == Array(1...20))
        }
    }

    @Test("upToDate() waits for an entry that another node has appended and no node has read")
    func fresh() async throws {
        let log = FluxTestLog()
        let (one, other) = (try await join(log), try await join(log))
        log.arePaused = true
        // Appended, but not read by any node.
        let pending = Task { try await one.dispatch(action: [1, 1]) }
        while log.entries.isEmpty { await Task.yield() }
        let reading = Task { try await other.upToDate() }
        while other.lag == 0 { await Task.yield() }
        #expect(other.lines.isEmpty)
        log.arePaused = false
        #expect(try await reading.value == log.entries[0].position)
        #expect(other.lines == [[1, 1]] && other.lag == 0)
        #expect(try await pending.value == log.entries[0].position)
    }

    // MARK: - A log that does not answer

    @Test("The description of a log's error may use the replica")
    func describedByUser() async throws {
        let (known, lags) = (Locked<FluxReplica<Journal>?>(nil), Recorder<UInt64>())
        let log = BreakingLog {
            if let replica = known.current { lags.record(replica.lag) }
            return "broken"
        }
        let replica = try await join(log, backoff: .constant(.milliseconds(1)))
        known.withLock { $0 = replica }
        await lags.count(1)
        #expect(lags.values.first == 0 && replica.lines.isEmpty)
        known.withLock { $0 = nil }
    }

    @Test("While the log is unavailable, calls time out and the status says so; later the replica recovers by itself")
    func unavailable() async throws {
        let (log, clock) = (FluxTestLog(), FluxTestClock())
        let replica = try await join(log, backoff: .constant(.seconds(1)), clock: clock)
        log.isAvailable = false
        #expect(await replica.reaches { $0 == .unavailable("the log is down") } != nil)
        let dispatch = Task { await failure { try await replica.dispatch(action: [1, 1], within: .seconds(5)) } }
        let read = Task { await failure { try await replica.upToDate(within: .seconds(5)) } }
        // The task that reads, the task that checks whether the log is back, one task for each caller, and one timer.
        await clock.sleepers(5)
        clock.advance(by: .seconds(5))
        #expect(await dispatch.value == .unconfirmed("no answer within 5.0 seconds; the log failed: the log is down"))
        #expect(await read.value == .unavailable("no answer within 5.0 seconds; the log failed: the log is down"))
        #expect(replica.store.state == Journal())

        log.isAvailable = true
        let pending = Task { try await replica.dispatch(action: [1, 2], within: .seconds(1_000_000_000)) }
        let following = Task { await replica.reaches { $0 == .following } }
        while replica.lines.isEmpty {
            clock.advance(by: .seconds(1))
            await Task.yield()
        }
        _ = try await pending.value
        #expect(await following.value == .following)
        #expect(replica.lines == [[1, 2]])
    }

    @Test("Each waiting dispatch has its own timeout, in whatever order the dispatches began")
    func times() async throws {
        let (log, clock) = (FluxTestLog(), FluxTestClock())
        let replica = try await join(log, clock: clock)
        log.arePaused = true
        var dispatches: [Int: Task<FluxReplicaError?, Never>] = [:]
        for seconds in [5, 2, 8, 2] {
            let number = UInt8(dispatches.count + 1)
            dispatches[dispatches.count] = Task {
                await failure { try await replica.dispatch(action: [1, number], within: .seconds(seconds)) }
            }
            while log.entries.count < number { await Task.yield() }
        }
        let ended = FluxRecorder<Int>()
        for (number, dispatch) in dispatches {
            Task {
                _ = await dispatch.value
                ended.record(number)
            }
        }
        for (seconds, numbers) in [(2, [1, 3]), (3, [0]), (3, [2])] {
            let before = ended.elements.count
            clock.advance(by: .seconds(seconds))
            await ended.count(before + numbers.count)
            #expect(Set(ended.elements.dropFirst(before)) == Set(numbers))
        }
        for (number, seconds) in [5.0, 2, 8, 2].enumerated() {
            #expect(await dispatches[number]?.value == .unconfirmed("no answer within \(seconds) seconds"))
        }
    }

    @Test("A dispatch that begins after all others have ended times out too")
    func timesLater() async throws {
        let (log, clock) = (FluxTestLog(), FluxTestClock())
        let replica = try await join(log, clock: clock)
        log.arePaused = true
        // Lets the timer of the join expire.
        clock.advance(by: .seconds(30))
        for number in 1...3 {
            let dispatch = Task { await failure { try await replica.dispatch(action: [1, 1], within: .seconds(5)) } }
            while log.entries.count < number { await Task.yield() }
            clock.advance(by: .seconds(5))
            #expect(await dispatch.value == .unconfirmed("no answer within 5.0 seconds"))
        }
    }

    @Test("A dispatch times out if the clock wakes it too early")
    func wokenEarly() async throws {
        let (log, clock) = (FluxTestLog(), DeafClock())
        let replica = try await join(log, clock: clock)
        log.arePaused = true
        let dispatch = Task { await failure { try await replica.dispatch(action: [1, 1], within: .seconds(1)) } }
        while clock.asleep < 2 { await Task.yield() }
        clock.wake()
        #expect(await dispatch.value == .unconfirmed("no answer within 1.0 seconds"))
    }

    @Test("Each pause is longer than the one before, and an entry that is read resets the pause")
    func pauses() async throws {
        let (log, clock) = (CountingLog(), BriskClock())
        let replica = try await join(log, backoff: .exponential(.seconds(1), max: .seconds(16)), clock: clock)
        let other = try await join(log.base)
        // Makes the replica check continually whether the log is back.
        log.takesEntries.withLock { $0 = false }
        let pending = Task { await failure { try await replica.dispatch(action: [1, 1], within: .seconds(100)) } }
        while log.appends.withLock({ $0 < 6 }) || log.ends.withLock({ $0 < 6 }) { await Task.yield() }
        for seconds in [1, 2, 4] { #expect(clock.count(seconds) == 2) }
        log.base.isAvailable = false
        while log.reads.withLock({ $0 < 6 }) { await Task.yield() }
        for seconds in [1, 2, 4] { #expect(clock.count(seconds) == 3) }
        log.base.isAvailable = true
        try await other.dispatch(action: [2, 1], within: .seconds(100))
        while replica.lines.isEmpty { await Task.yield() }
        let reads = log.reads.withLock { $0 }
        log.base.isAvailable = false
        while log.reads.withLock({ $0 < reads + 3 }) { await Task.yield() }
        for seconds in [1, 2] { #expect(clock.count(seconds) == 4) }
        await replica.close()
        #expect(await pending.value == .unconfirmed("the replica was closed"))
    }

    @Test("A closed replica leaves no task asleep")
    func closedLeavesNobodyAsleep() async throws {
        let clock = try await {
            let (log, clock) = (FluxTestLog(), FluxTestClock())
            let replica = try await join(log, backoff: .constant(.seconds(1)), clock: clock)
            log.isAvailable = false
            // The task that reads, the task that checks whether the log is back, and the timer of the join.
            await clock.sleepers(3)
            await replica.close()
            return Weak(clock)
        }()
        #expect(await clock.isGone())
    }

    @Test("A replica keeps no memory of completed reads")
    func keepsNothing() async {
        await #expect(processExitsWith: .success) {
            let replica = try await join(FluxTestLog())
            let kept = await Heap.bytesKept(warmUp: 1_000, runs: 30_000) { count in
                for _ in 0..<count { _ = try? await replica.upToDate() }
            }
            #expect(kept < 64)
        }
    }

    @Test("One timer ends all dispatches that time out at nearly the same time")
    func timesAtOnce() async throws {
        let (log, clock) = (FluxTestLog(), CountingClock())
        let replica = try await join(log, clock: clock)
        log.arePaused = true
        var dispatches: [Task<FluxReplicaError?, Never>] = []
        for number in 1...100 {
            let duration = Duration.seconds(5) + .microseconds(number)
            dispatches.append(Task { await failure { try await replica.dispatch(action: [1, 1], within: duration) } })
            while log.entries.count < number { await Task.yield() }
        }
        clock.base.advance(by: .seconds(6))
        for dispatch in dispatches {
            guard case .unconfirmed = await dispatch.value else { throw Unexpected(it: "it was told something else") }
        }
        // The timer of the join, and that of the first dispatch.
        #expect(clock.sleeps.withLock { $0 } == 2)
    }

    @Test("A closed replica keeps nothing, however much time its waiting dispatches had left")
    func closedWithTimeLeft() async throws {
        let kept = try await {
            let (log, clock) = (FluxTestLog(), FluxTestClock())
            // The time of the join is the longest that is left.
            let replica = try await join(log, clock: clock)
            log.arePaused = true
            var dispatches: [Task<FluxReplicaError?, Never>] = []
            // One after the other: the first two replace the alarm before them, and the third does not.
            for seconds in [20, 10, 15] {
                dispatches.append(
                    Task { await failure { try await replica.dispatch(action: [1, 1], within: .seconds(seconds)) } })
                while log.entries.count < dispatches.count {
                    try Task.checkCancellation()
                    await Task.yield()
                }
            }
            await replica.close()
            for dispatch in dispatches { #expect(await dispatch.value == .unconfirmed("the replica was closed")) }
            return [Weak(replica.store), Weak(log), Weak(clock)]
        }()
        // Each alarm that still slept would keep the replica's store, its log and the clock.
        for object in kept { #expect(await object.isGone()) }
    }

    @Test("The status reports that the log is back even if there is no call")
    func back() async throws {
        let log = FluxTestLog()
        let replica = try await join(log, backoff: .constant(.milliseconds(1)))
        log.isAvailable = false
        #expect(await replica.reaches { $0 != .following } == .unavailable("the log is down"))
        log.isAvailable = true
        #expect(await replica.reaches { $0 == .following } == .following)
    }

    @Test("A join times out while the log is unavailable, and leaves nothing behind")
    func joinFails() async throws {
        let kept = await {
            let (log, clock) = (FluxTestLog(), FluxTestClock())
            log.isAvailable = false
            let joining = Task {
                do throws(FluxReplicaError) {
                    _ = try await FluxReplica.joined(
                        log: log, initialState: Journal(), coding: .journal(), clock: clock, within: .seconds(3))
                    return FluxReplicaError?.none
                } catch {
                    return error
                }
            }
            // The task that reads, the task that checks whether the log is back, the task that joins, and the timer.
            await clock.sleepers(4)
            clock.advance(by: .seconds(3))
            #expect(
                await joining.value == .unavailable("no answer within 3.0 seconds; the log failed: the log is down"))
            return [Weak(log), Weak(clock)]
        }()
        // A task that went on calling the log, or slept until it may, would keep both.
        for object in kept { #expect(await object.isGone()) }
    }

    @Test("A dispatch fails if the log refuses its entry or its action cannot be encoded")
    func refused() async throws {
        let log = RefusingLog()
        let replica = try await join(log)
        #expect(
            await failure { try await replica.dispatch(action: [1, 1]) }
                == .notApplied("the log refused the call: too large"))
        #expect(
            await failure { try await replica.dispatch(action: [201, 1]) }
                == .notApplied("it cannot be encoded: Odd()"))
    }

    @Test("A reading that the log ends without an error is reported as failed")
    func readingEnds() async throws {
        let replica = try await join(EndingLog(), backoff: .constant(.milliseconds(1)))
        #expect(await replica.reaches { $0 == .unavailable("the log ended the reading without an error") } != nil)
    }

    @Test("The longest possible timeout is accepted")
    func forGood() async throws {
        let replica = try await FluxReplica.joined(
            log: FluxTestLog(), initialState: Journal(), coding: .journal(), within: .seconds(Int64.max))
        try await replica.dispatch(action: [1, 1], within: .seconds(Int64.max))
    }

    // MARK: - Giving up

    @Test("A cancelled dispatch leaves no call running at the log and is not retried")
    func leavesNothing() async throws {
        let lingering = LingeringLog()
        let replica = try await join(lingering)
        let dispatch = Task { await failure { try await replica.dispatch(action: [1, 1]) } }
        while lingering.underWay.withLock({ $0 }) == 0 { await Task.yield() }
        dispatch.cancel()
        #expect(await dispatch.value == .unconfirmed("the task was cancelled"))
        while lingering.underWay.withLock({ $0 }) > 0 {
            try Task.checkCancellation()
            await Task.yield()
        }

        let (log, clock) = (CountingLog(), FluxTestClock())
        let other = try await join(log, backoff: .constant(.seconds(1)), clock: clock)
        log.base.isAvailable = false
        let pending = Task { await failure { try await other.dispatch(action: [1, 1]) } }
        // The task that reads, the task that checks whether the log is back, the task that appends, and the timer.
        await clock.sleepers(4)
        while log.appends.withLock({ $0 == 0 }) { await Task.yield() }
        pending.cancel()
        #expect(await pending.value == .unconfirmed("the task was cancelled"))
        await other.close()
        #expect(log.appends.withLock { $0 } == 1)
    }

    @Test("A cancelled dispatch is applied before later dispatches or never")
    func zombies() async throws {
        let log = LateLog()
        let replica = try await join(log)
        let first = Task { await failure { try await replica.dispatch(action: [1, 1]) } }
        while log.late.withLock({ $0.isEmpty }) { await Task.yield() }
        first.cancel()
        #expect(await first.value == .unconfirmed("the task was cancelled"))
        log.isLate.withLock { $0 = false }
        try await replica.dispatch(action: [1, 2])
        try await log.bring()
        try await replica.dispatch(action: [1, 3])
        #expect(replica.lines == [[1, 2], [1, 3]])
    }

    @Test("A call in a cancelled task does not reach the log")
    func cancelled() async throws {
        let log = CountingLog()
        let replica = try await join(log)
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return [
                await failure { try await replica.dispatch(action: [1, 1]) },
                await failure { try await replica.upToDate() },
            ]
        }
        #expect(await task.value == [.cancelled, .cancelled])
        await replica.close()
        // The one call comes from the join.
        #expect(log.base.entries.isEmpty && log.ends.withLock { $0 } == 1)
    }

    @Test("Closing ends waiting calls, and later calls are refused")
    func closing() async throws {
        let log = FluxTestLog()
        let replica = try await join(log)
        log.arePaused = true
        let dispatch = Task { await failure { try await replica.dispatch(action: [1, 1]) } }
        let read = Task { () -> FluxReplicaError? in
            while log.entries.isEmpty { await Task.yield() }
            return await failure { try await replica.upToDate() }
        }
        while replica.lag == 0 { await Task.yield() }
        await replica.close()
        await replica.close()
        #expect(await dispatch.value == .unconfirmed("the replica was closed"))
        #expect(await read.value == .closed)
        #expect(await failure { try await replica.dispatch(action: [1, 1]) } == .closed)
        #expect(replica.status.state.condition == .closed)
    }

    @Test("Closing waits until the replica's calls at the log have ended, even if they end slowly")
    func closingWaits() async throws {
        let log = LingeringLog()
        let replica = try await join(log)
        let dispatch = Task { await failure { try await replica.dispatch(action: [1, 1]) } }
        while log.underWay.withLock({ $0 }) == 0 { await Task.yield() }
        await replica.close()
        #expect(log.underWay.withLock { $0 } == 0)
        #expect(await dispatch.value == .unconfirmed("the replica was closed"))
    }

    @Test("Closing waits until several objections at the log have ended")
    func closingEndsObjections() async throws {
        let log = LingeringLog()
        let replica = try await join(log, checkEvery: 1)
        let wrong = try await join(log.base, initialState: Journal(isWrong: true), checkEvery: 1)
        var number: UInt8 = 0
        while log.underWay.withLock({ $0 }) < 3 {
            number = number % 250 + 1
            _ = await failure { try await wrong.dispatch(action: [1, number]) }
        }
        await replica.close()
        #expect(log.underWay.withLock { $0 } == 0)
        await wrong.close()
    }

    @Test("Closing does not wait for a clock that ignores cancellation")
    func closingNeedsNoObedientClock() async throws {
        let (log, clock) = (FluxTestLog(), DeafClock())
        let replica = try await join(log, backoff: .constant(.seconds(1)), clock: clock)
        log.isAvailable = false
        // The task that reads, the task that checks whether the log is back, and the timer of the join.
        while clock.asleep < 3 { await Task.yield() }
        await replica.close()
        #expect(clock.asleep == 3)
        clock.wake()
    }

    @Test(
        "A dispatch with a timeout of zero or less times out",
        arguments: [Duration(_high: .min, low: 0), .seconds(Int64.min), .zero])
    func longAgo(duration: Duration) async throws {
        let log = FluxTestLog()
        let replica = try await join(log)
        log.arePaused = true
        guard case .unconfirmed = await failure(of: { try await replica.dispatch(action: [1, 1], within: duration) })
        else { throw Unexpected(it: "it was told something else") }
    }

    @Test("A released replica is closed, and nothing keeps its store")
    func letGo() async throws {
        let log = FluxTestLog()
        let (store, status) = try await {
            let replica = try await join(log)
            try await replica.dispatch(action: [1, 1])
            return (Weak(replica.store), replica.status)
        }()
        for await status in status.states where status.condition == .closed { break }
        #expect(await store.isGone())
    }

    @Test("A replica may be released in handle(action:)")
    func letGoInHandle() async throws {
        struct Holder: FluxState {
            struct Close: FluxAction {}
            var replica: FluxReplica<Journal>?
            mutating func handle(action: Close) -> Holder? { Holder() }
        }
        let log = FluxTestLog()
        let (store, status) = try await {
            let replica = try await join(log)
            return (FluxStore(initialState: Holder(replica: replica), dispatcher: nil), replica.status)
        }()
        store.dispatch(action: Holder.Close())
        for await status in status.states where status.condition == .closed { break }
    }

    @Test("Meaningless numbers stop the program with a message")
    func misuse() async throws {
        let check = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = try await join(FluxTestLog(), checkEvery: 0)
        }
        #expect(check.said.contains("was given checkEvery: 0, snapshotEvery: 1000. Give 1 or more."))
        let snapshot = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = try await join(FluxTestLog(), snapshotEvery: 0)
        }
        #expect(snapshot.said.contains("was given checkEvery: 1000, snapshotEvery: 0. Give 1 or more."))
        let version = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = FluxReplicaCoding<Journal>.journal(version: -1)
        }
        #expect(version.said.contains("was given version -1. Give 0 or more."))
        _ = FluxReplicaCoding<Journal>.journal(version: 0)
    }

    @Test("An action that is dispatched to the store of a replica stops the program with a message")
    func pastTheLog() async throws {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let replica = try await join(FluxTestLog())
            replica.store.dispatch(action: [1, 1])
        }
        let message = result.said
        #expect(message.contains("Use dispatch(action:) of the replica"))
    }

    // MARK: - Snapshots

    @Test("One node saves each snapshot, the log is trimmed up to the one before, and others join from there")
    func snapshots() async throws {
        let log = FluxTestLog()
        let (one, other) = (try await join(log, snapshotEvery: 10), try await join(log, snapshotEvery: 10))
        for number in 1...35 {
            try await one.dispatch(action: [1, UInt8(number)])
            if number.isMultiple(of: 10) {
                // Waits for the trim too, the last step: a snapshot that is due during a save is left to the next one.
                while try await log.snapshot()?.position != one.position || log.entries.count > 10 {
                    await Task.yield()
                }
            }
        }
        try await other.upToDate()
        let late = try await join(log, snapshotEvery: 10)
        #expect(late.store.state == one.store.state && other.store.state == one.store.state)
        #expect(late.position == one.position && late.store.revision == 6)
        #expect(one.status.state.snapshotFailure == nil)
    }

    @Test("A node that missed trimmed entries loads a snapshot and learns the position of its own dispatch")
    func behind() async throws {
        let log = GatedLog()
        let one = try await join(log.base, snapshotEvery: 5)
        let other = try await join(log, snapshotEvery: 5, backoff: .constant(.milliseconds(1)))
        log.isCut.withLock { $0 = true }
        let pending = Task { try await other.dispatch(action: [2, 1], within: .seconds(100)) }
        while log.base.entries.isEmpty { await Task.yield() }
        for number in 1...14 {
            try await one.dispatch(action: [1, UInt8(number)])
            if number % 5 != 4 { continue }
            while try await log.base.snapshot()?.position != one.position || log.base.entries.count > 5 {
                await Task.yield()
            }
        }
        log.isCut.withLock { $0 = false }
        let position = try await pending.value
        #expect(other.lines.first == [2, 1] && position == other.position)
        try await other.upToDate()
        #expect(one.store.state == other.store.state)
    }

    @Test("The status reports that a snapshot cannot be saved until one can")
    func snapshotFails() async throws {
        let log = GatedLog()
        let replica = try await join(log, snapshotEvery: 1)
        log.isFull.withLock { $0 = true }
        try await replica.dispatch(action: [1, 1])
        let failure = "the log is not available: no disk"
        for await status in replica.status.states where status.snapshotFailure == failure { break }
        log.isFull.withLock { $0 = false }
        try await replica.dispatch(action: [1, 2])
        for await status in replica.status.states where status.snapshotFailure == nil { break }
        #expect(try await log.base.snapshot()?.position == replica.position)
    }

    @Test("The first snapshot trims nothing, because a log may take position 0 to mean all entries")
    func trimsNothing() async throws {
        let log = CountingLog()
        for number in UInt8(1)...3 {
            let replica = try await join(log, snapshotEvery: 1)
            try await replica.dispatch(action: [1, number])
            await replica.close()
        }
        #expect(log.trims.withLock { $0.count == 2 && !$0.contains(0) })
    }

    @Test("A log trimmed past its newest snapshot is unavailable with a reason, and the node keeps its state")
    func trimmedTooFar() async throws {
        let log = GatedLog()
        let (one, other) = (try await join(log.base), try await join(log, backoff: .constant(.milliseconds(1))))
        try await one.dispatch(action: [1, 1])
        try await other.upToDate()
        let before = other.position
        log.isCut.withLock { $0 = true }
        let position = try await one.dispatch(action: [1, 2])
        // From here on, nothing that was read before is still under way.
        #expect(await other.reaches { $0 == .unavailable("cut off") } != nil)
        try await log.base.trim(through: position)
        log.isCut.withLock { $0 = false }
        let reason = "the entries up to \(position) are gone, but the newest snapshot is at 0"
        #expect(await other.reaches { $0 == .unavailable(reason) } != nil)
        #expect(other.lines == [[1, 1]] && other.position == before)
    }

    @Test("A snapshot that arrives after the replica was closed changes nothing")
    func closedWhileLoading() async throws {
        let log = LateSnapshotLog()
        let (replica, one) = (try await join(log), try await join(log.base, snapshotEvery: 1))
        let revision = replica.store.revision
        log.isLate.withLock { $0 = true }
        try await one.dispatch(action: [1, 1])
        await one.close()
        await log.isAsked.wait()
        await replica.close()
        #expect(replica.lines.isEmpty && replica.store.revision == revision)
    }

    @Test("The status reports a failed trim and says that the snapshot was saved")
    func trimFails() async throws {
        let log = GatedLog()
        let replica = try await join(log, snapshotEvery: 1)
        log.isFull.withLock { $0 = true }
        log.saves.withLock { $0 = true }
        try await replica.dispatch(action: [1, 1])
        // The first snapshot leaves nothing to trim.
        while try await log.base.snapshot() == nil { await Task.yield() }
        var (number, failure) = (UInt8(1), "")
        while !failure.hasPrefix("it was saved") {
            number = number % 100 + 1
            try await replica.dispatch(action: [1, number])
            failure = replica.status.state.snapshotFailure ?? ""
        }
        let text = "it was saved, but the entries before it were not trimmed: the log is not available: no disk"
        #expect(failure == text)
    }

    @Test("A log that answers but cannot be read stays unavailable, and a call that times out says why")
    func unread() async throws {
        let log = GatedLog()
        let replica = try await join(log, backoff: .constant(.milliseconds(1)))
        log.isCut.withLock { $0 = true }
        let pending = Task { try await replica.dispatch(action: [1, 1], within: .seconds(100)) }
        #expect(await replica.reaches { $0 == .unavailable("cut off") } != nil)
        var others: [FluxReplicaStatus.Condition] = []
        for _ in 0..<50 {
            let error = await failure { try await replica.upToDate(within: .milliseconds(1)) }
            #expect(error == .unavailable("no answer within 0.001 seconds; the log failed: cut off"))
            let condition = replica.status.state.condition
            if condition != .unavailable("cut off") { others.append(condition) }
        }
        #expect(others.isEmpty)
        log.isCut.withLock { $0 = false }
        #expect(try await pending.value == replica.position)
        #expect(await replica.reaches { $0 == .following } != nil)
    }

    @Test("The status reports a hanging save from the next due snapshot until the save returns")
    func saveHangs() async throws {
        let log = HangingLog()
        // A dispatch after which a checksum is due returns once that is taken and the status says whether a save began.
        let replica = try await join(log, checkEvery: 1, snapshotEvery: 1)
        try await replica.dispatch(action: [1, 1])
        #expect(replica.status.state.snapshotFailure == nil)
        try await replica.dispatch(action: [1, 2])
        #expect(replica.status.state.snapshotFailure == "the previous snapshot is still being saved")
        log.mayReturn.open()
        for await status in replica.status.states where status.snapshotFailure == nil { break }
    }

    @Test("Due snapshots are saved even if each replica is closed after one action", arguments: [1, 100])
    func savedThoughClosed(checkEvery: Int) async throws {
        let log = BriefLog()
        for number in UInt8(1)...50 {
            let replica = try await join(log, checkEvery: checkEvery, snapshotEvery: 5)
            try await replica.dispatch(action: [1, number])
            await replica.close()
        }
        #expect(try await log.base.snapshot()?.position == log.base.entries.last?.position)
        #expect(log.base.entries.count == 5)
    }

    @Test("If a save hangs, closing ends when its task is cancelled, and so does the save")
    func closingEndsSave() async throws {
        var log: HangingLog? = HangingLog()
        weak let last = log
        let replica = try await join(log!, snapshotEvery: 1)
        try await replica.dispatch(action: [1, 1])
        let closing = Task { await replica.close() }
        log = nil
        closing.cancel()
        await closing.value
        #expect(replica.status.state.condition == .closed)
        _ = consume replica
        while last != nil { await Task.yield() }
    }

    @Test("Opening a log again and again does not enlarge its snapshots")
    func openedAgain() async throws {
        let log = FluxTestLog()
        var (sizes, before) = (Set<Int>(), [FluxReplica<Journal>]())
        for number in UInt8(1)...20 {
            // Two replicas at once, so that there are two writers.
            let one = try await join(log, snapshotEvery: 2)
            // A replica that is closed again has nothing left to hand over.
            for replica in before { await replica.close() }
            let other = try await join(log, snapshotEvery: 2)
            try await one.dispatch(action: [1, number])
            try await other.dispatch(action: [2, number])
            while try await log.snapshot()?.position != other.position { await Task.yield() }
            sizes.insert(try await log.snapshot()!.state.count - 2 * other.lines.count)
            before = [one, other]
            for replica in before { await replica.close() }
        }
        #expect(sizes.count == 1)
        let last = try await join(log)
        for client in UInt8(1)...2 {
            #expect(last.lines.filter { $0.client == client }.map(\.number) == Array(1...20))
        }
    }

    @Test("A late entry of a closed replica is applied before those of the next replica or never")
    func zombiesOfAClosedReplica() async throws {
        let log = LateLog()
        log.isLate.withLock { $0 = false }
        let one = try await join(log)
        try await one.dispatch(action: [1, 1])
        log.isLate.withLock { $0 = true }
        let second = Task { await failure { try await one.dispatch(action: [1, 2]) } }
        while log.late.withLock({ $0.isEmpty }) { await Task.yield() }
        await one.close()
        #expect(await second.value == .unconfirmed("the replica was closed"))
        log.isLate.withLock { $0 = false }
        let next = try await join(log)
        try await next.dispatch(action: [1, 3])
        try await log.bring()
        try await next.dispatch(action: [1, 4])
        #expect(next.lines == [[1, 1], [1, 3], [1, 4]])
    }

    @Test("A replica that has already joined does not take over the writer of a closed replica")
    func staysWhoItIs() async throws {
        let log = LateLog()
        log.isLate.withLock { $0 = false }
        let (closed, replica) = (try await join(log), try await join(log))
        try await closed.dispatch(action: [1, 1])
        await closed.close()
        log.isLate.withLock { $0 = true }
        let pending = Task { try await replica.dispatch(action: [2, 1], within: .seconds(100)) }
        while log.late.withLock({ $0.isEmpty }) { await Task.yield() }
        try await replica.upToDate()
        try await log.bring()
        #expect(try await pending.value == replica.position)
    }

    // MARK: - Nodes that differ

    @Test("A node whose state differs reports it, starts over from a snapshot and serves again")
    func diverged() async throws {
        let log = FluxTestLog()
        let one = try await join(log, checkEvery: 2, snapshotEvery: 2)
        let wrong = try await join(log, initialState: Journal(lines: [[9, 9]]), checkEvery: 2, snapshotEvery: 2)
        let statuses = FluxRecorder.changes(of: wrong.status)
        try await one.dispatch(action: [1, 1])
        try await one.dispatch(action: [1, 2])
        while try await log.snapshot() == nil { await Task.yield() }
        // This entry carries the checksum after two actions.
        let position = try await one.dispatch(action: [1, 3])
        await statuses.count(2)
        let conditions = statuses.elements.map(\.state.condition)
        guard case .diverged(let divergence) = conditions[0] else {
            throw Unexpected(it: "\(statuses.elements.map(\.state))")
        }
        #expect(divergence.position == position && divergence.count == 2 && divergence.own != divergence.other)
        #expect(conditions.last == .following)
        try await wrong.upToDate()
        #expect(wrong.store.state == one.store.state && one.lines == [[1, 1], [1, 2], [1, 3]])
        #expect(log.entries.count == 3)
    }

    @Test("A due checksum or snapshot is encoded before its dispatch returns", arguments: [1, 1_000])
    func encodedFirst(checkEvery: Int) async throws {
        let encoded = FluxLock(0)
        let coding = FluxReplicaCoding<Journal> {
            [$0.client, $0.number]
        } decode: { bytes, _ in
            Journal.Action(client: bytes[0], number: bytes[1])
        } encodeState: { _ in
            // Slow, so that a dispatch that did not wait for the encoding would return before its end.
            for _ in 0..<100_000 { encoded.withLock { $0 += 1 } }
            return []
        } decodeState: { _, _ in
            Journal()
        }
        for number in 1...20 {
            let replica = try await FluxReplica.joined(
                log: FluxTestLog(), initialState: Journal(), coding: coding, checkEvery: checkEvery,
                snapshotEvery: 1_001 - checkEvery)
            try await replica.dispatch(action: [1, 1])
            #expect(encoded.withLock { $0 } == number * 100_000)
        }
    }

    @Test("The status reports a state that cannot be encoded until it can, and dispatches still succeed")
    func doesNotEncode() async throws {
        let statesEncode = FluxLock(false)
        let replica = try await FluxReplica.joined(
            log: FluxTestLog(), initialState: Journal(),
            coding: .journal(statesEncode: { statesEncode.withLock { $0 } }), checkEvery: 1, snapshotEvery: 2)
        let failure = "the state cannot be encoded: Odd()"
        try await replica.dispatch(action: [1, 1])
        #expect(replica.status.state.checksumFailure == failure && replica.status.state.snapshotFailure == nil)
        try await replica.dispatch(action: [1, 2])
        #expect(replica.status.state.checksumFailure == failure && replica.status.state.snapshotFailure == failure)
        statesEncode.withLock { $0 = true }
        try await replica.dispatch(action: [1, 3])
        #expect(replica.status.state.checksumFailure == nil && replica.status.state.snapshotFailure == failure)
        try await replica.dispatch(action: [1, 4])
        for await status in replica.status.states where status.snapshotFailure == nil { break }
        #expect(replica.status.state.condition == .following && replica.lines.count == 4)
    }

    @Test(
        "A node that reaches the same state again objects, the other checks its own, and both continue",
        .timeLimit(.minutes(1)), arguments: [3, .max])
    func objection(takenAtOnce: Int) async throws {
        let log = StutteringLog(takenAtOnce: takenAtOnce)
        let one = try await join(log, checkEvery: 2)
        let wrong = try await join(log, initialState: Journal(isWrong: true), checkEvery: 2)
        let (statuses, others) = (FluxRecorder.changes(of: one.status), FluxRecorder.changes(of: wrong.status))
        for number in UInt8(1)...3 { try await one.dispatch(action: [1, number]) }
        await others.count(2)
        await statuses.count(2)
        for conditions in [statuses, others].map({ $0.elements.map(\.state.condition) }) {
            guard conditions.count == 2, case .diverged = conditions[0], conditions[1] == .following else {
                throw Unexpected(it: "\(conditions)")
            }
        }
        // The last entries are the objections of the two replicas to each other.
        while log.base.entries.count < 5 { await Task.yield() }
        // Otherwise it would object to the next checksum too, and `one` would be read while it examines that objection.
        await wrong.close()
        try await one.dispatch(action: [1, 4])
        #expect(one.lines == [[1, 1], [1, 2], [1, 3], [1, 4]])
    }

    @Test(
        "A node also objects if it starts over from a snapshot taken where the states differ", .timeLimit(.minutes(1)))
    func objectionBehindSnapshot() async throws {
        let log = FluxTestLog()
        let one = try await join(log, checkEvery: 2, snapshotEvery: 2)
        let wrong = try await join(log, initialState: Journal(isWrong: true), checkEvery: 2)
        for number in UInt8(1)...2 { try await one.dispatch(action: [1, number]) }
        while try await log.snapshot() == nil { await Task.yield() }
        try await wrong.upToDate()
        let others = FluxRecorder.changes(of: wrong.status)
        try await wrong.dispatch(action: [2, 3])
        // The first entry may have been sent before the checksum was taken; then this one carries it.
        _ = await failure { try await wrong.dispatch(action: [2, 4]) }
        await others.count(2)
        guard case .diverged = others.elements[0].state.condition, wrong.status.state.condition == .following else {
            throw Unexpected(it: "\(others.elements)")
        }
        #expect(wrong.lines.starts(with: [[1, 1], [1, 2], [2, 3]]))
        try await one.upToDate()
        #expect(one.lines == wrong.lines)
    }

    @Test(
        "A node whose state differs is detected and objects even if the log adds each entry twice",
        .timeLimit(.minutes(1)))
    func objectionAmongRepeated() async throws {
        let log = DoublingLog()
        let one = try await join(log, checkEvery: 2)
        let wrong = try await join(log, initialState: Journal(isWrong: true), checkEvery: 2)
        let (statuses, others) = (FluxRecorder.changes(of: one.status), FluxRecorder.changes(of: wrong.status))
        var lines: [Journal.Action] = []
        // One of these entries carries a checksum. Which one depends on when the second copies are read.
        var error: FluxReplicaError?
        for number in UInt8(1)...200 where error == nil && others.elements.isEmpty {
            try await one.dispatch(action: [1, number])
            lines.append([1, number])
            // Refused from the moment when the node has read that entry; when it serves again, it has said so.
            error = await failure { try await wrong.upToDate() }
        }
        // It starts over and comes to the same state, so it objects, and then the right node examines itself.
        await others.count(2)
        await statuses.count(2)
        for conditions in [statuses, others].map({ $0.elements.map(\.state.condition) }) {
            guard conditions.count == 2, case .diverged = conditions[0], conditions[1] == .following else {
                throw Unexpected(it: "\(conditions)")
            }
        }
        // Otherwise it would object to the next checksum too.
        await wrong.close()
        try await one.dispatch(action: [1, 201])
        #expect(one.lines == lines + [[1, 201]])
    }

    @Test("A node that is many checksums behind checks each of them and objects", .timeLimit(.minutes(1)))
    func objectionFarBehind() async throws {
        let log = GatedLog()
        let first = try await join(log.base, snapshotEvery: 1)
        let wrong = try await join(log.base, initialState: Journal(isWrong: true), checkEvery: 1)
        try await first.dispatch(action: [1, 1])
        while try await log.snapshot() == nil { await Task.yield() }
        await first.close()
        try await wrong.upToDate()
        let right = try await join(log, checkEvery: 1)
        log.isCut.withLock { $0 = true }
        for number in UInt8(1)...20 { try await wrong.dispatch(action: [2, number]) }
        log.isCut.withLock { $0 = false }
        // The right replica's objections must not push out the checksums of the wrong one that they are compared with.
        let lines = [[1, 1]] + (1...20).map { [2, $0] as Journal.Action }
        // The wrong replica may have all lines while further objections are under way, and then examine another. So the
        // test waits for both replicas.
        while wrong.lines != lines || right.lines != lines || wrong.status.state.condition != .following {
            try Task.checkCancellation()
            await Task.yield()
        }
    }

    @Test("A node joins a log with wrong checksums of another node after reading it once more")
    func joinsBehindOneThatWasWrong() async throws {
        let log = FluxTestLog()
        let wrong = try await join(log, initialState: Journal(isWrong: true), checkEvery: 2)
        for number in UInt8(1)...5 { try await wrong.dispatch(action: [1, number]) }
        let right = try await join(log, checkEvery: 2)
        #expect(right.lines == (1...5).map { [1, $0] })
        #expect(right.status.state.condition == .following)
    }

    // MARK: - Versions

    @Test("A node stops before an action newer than its program, keeps its state and refuses later calls")
    func newer() async throws {
        let log = FluxTestLog()
        let (old, new) = (try await join(log, version: 1), try await join(log, version: 2))
        try await new.dispatch(action: [1, 1])
        try await old.upToDate()
        let position = try await new.dispatch(action: [200, 1])
        try await new.dispatch(action: [1, 2])
        guard case .stopped(let stop) = await old.reaches({ if case .stopped = $0 { true } else { false } }) else {
            throw Unexpected(it: "\(old.status.state)")
        }
        #expect(stop.position == position && stop.version == 2 && stop.known == 1 && stop.reason == "it is newer")
        #expect(old.lines == [[1, 1]])
        #expect(await failure { try await old.dispatch(action: [1, 3]) } == .stopped(stop))
        #expect(await failure { try await old.upToDate() } == .stopped(stop))
        // An old node cannot join behind that action either.
        await #expect(throws: FluxReplicaError.stopped(stop)) { try await join(log, version: 1) }
        #expect(new.lines == [[1, 1], [200, 1], [1, 2]])
    }

    @Test("A node refuses to send an action of a version that it does not know")
    func sendsWhatItKnows() async throws {
        let log = FluxTestLog()
        let replica = try await join(log, version: 1)
        #expect(
            await failure { try await replica.dispatch(action: [200, 1]) }
                == .notApplied("its version is 2, and the newest that this program knows is 1"))
        #expect(log.entries.isEmpty)
        let odd = FluxReplicaCoding<Journal>(
            versionOf: { _ in -1 }, encode: { _ in [] }, decode: { _, _ in [1, 1] }, encodeState: { _ in [] },
            decodeState: { _, _ in Journal() })
        let other = try await FluxReplica.joined(log: log, initialState: Journal(), coding: odd)
        #expect(
            await failure { try await other.dispatch(action: [1, 1]) }
                == .notApplied("its version is -1, and the newest that this program knows is 1"))
    }

    @Test("An action has the newest version unless the program gives another")
    func newest() async throws {
        let log = FluxTestLog()
        let old = try await join(log, version: 1)
        let coding = FluxReplicaCoding<Journal>(
            version: 2, encode: { [$0.client, $0.number] }, decode: { _, _ in [1, 1] }, encodeState: { _ in [] },
            decodeState: { _, _ in Journal() })
        let new = try await FluxReplica.joined(log: log, initialState: Journal(), coding: coding)
        try await new.dispatch(action: [1, 1])
        guard case .stopped(let stop) = await old.reaches({ if case .stopped = $0 { true } else { false } }) else {
            throw Unexpected(it: "\(old.status.state)")
        }
        #expect(stop.version == 2)
    }

    @Test("A node stops before an entry that it cannot decode")
    func damaged() async throws {
        let log = FluxTestLog()
        let replica = try await join(log)
        let position = try await log.append([9, 9, 9], key: "odd")
        guard case .stopped(let stop) = await replica.reaches({ if case .stopped = $0 { true } else { false } }) else {
            throw Unexpected(it: "\(replica.status.state)")
        }
        #expect(stop.position == position && stop.version == nil)
        #expect(stop.reason == "its format is 9, and 2 is known")
    }

    @Test("A node that stops before a snapshot says that it is a snapshot")
    func damagedSnapshot() async throws {
        let log = FluxTestLog()
        let right = try await join(log)
        let position = try await right.dispatch(action: [1, 1])
        try await log.save(FluxSharedSnapshot(position: position, state: [9, 9, 9]))
        try await log.trim(through: position)
        let error = await #expect(throws: FluxReplicaError.self) { try await join(log) }
        guard case .stopped(let stop) = error else { throw Unexpected(it: "\(error, default: "nothing")") }
        #expect(stop.position == position && stop.reason == "the snapshot: its format is 9, and 2 is known")
    }

    @Test("A node stops before a snapshot that lacks a part, or that belongs to another position")
    func wrongSnapshot() async throws {
        let log = FluxTestLog()
        let right = try await join(log, snapshotEvery: 1)
        for number in UInt8(1)...3 { try await right.dispatch(action: [1, number]) }
        await right.close()
        let snapshot = try #require(try await log.snapshot())
        let torn = SnapshotLog(base: log) { FluxSharedSnapshot(position: $0.position, state: $0.state.dropLast(4)) }
        let moved = SnapshotLog(base: log) { FluxSharedSnapshot(position: $0.position + 1, state: $0.state) }
        let damage = "its checksum is wrong: it is damaged, or a part is missing"
        let other = "it is the one of position \(snapshot.position)"
        for (log, reason) in [(torn, damage), (moved, other)] {
            let error = await #expect(throws: FluxReplicaError.self) { try await join(log) }
            guard case .stopped(let stop) = error else { throw Unexpected(it: "\(error, default: "nothing")") }
            #expect(stop.reason == "the snapshot: \(reason)")
        }
    }

    @Test("Only a reading says which entries are gone: a snapshot or an append that does so is tried, or not confirmed")
    func wrongTrimmed() async throws {
        let calls = Locked(0)
        let base = FluxTestLog()
        let log = SnapshotLog(base: base, appended: .trimmed(through: 3)) { snapshot in
            snapshot
        } before: { () throws(FluxSharedLogError) in
            calls.withLock { $0 += 1 }
            if calls.current < 3 { throw .trimmed(through: 1_000) }
        }
        let replica = try await join(log)
        #expect(calls.current == 3)
        let error = await #expect(throws: FluxReplicaError.self) { try await replica.dispatch(action: [1, 1]) }
        guard case .unconfirmed = error else { throw Unexpected(it: "\(error, default: "nothing")") }
        _ = try await replica.upToDate()
        #expect(replica.lines == [[1, 1]])
    }

    // MARK: - Families

    @Test("A family has one replica for each key, and closes it on request and at shutdown")
    func family() async throws {
        let logs = FluxLock([String: FluxTestLog]())
        let clock = FluxTestClock()
        let boards = FluxFamily(idle: .seconds(60), clock: clock) { (id: String) in
            let log = logs.withLock { logs in
                let log = logs[id] ?? FluxTestLog()
                logs[id] = log
                return log
            }
            return try await join(log)
        } close: { replica in
            await replica.close()
        }
        try await boards.with("b1") { try await $0.dispatch(action: [1, 1]) }
        try await boards.with("b2") { try await $0.dispatch(action: [2, 1]) }
        try await boards.close("b1")
        #expect(boards.keys == ["b2"])
        // A replica that has left the memory is still in the log.
        try await boards.with("b1") { replica in #expect(replica.lines == [[1, 1]]) }
        let report = await boards.shutdown(within: .seconds(1))
        #expect(Set(report.closed) == ["b1", "b2"])
    }

    @Test("A family closes a replica that was not used for its idle time, and keeps one that is in use")
    func familyIdle() async throws {
        let (logs, clock) = (["idle": FluxTestLog(), "used": FluxTestLog()], FluxTestClock())
        let boards = FluxFamily(idle: .seconds(60), clock: clock) { (id: String) in
            // A clock that stands still: nothing of the replica ends because its time is up.
            try await join(logs[id]!, clock: FluxTestClock())
        } close: { replica in
            await replica.close()
        }
        let (idle, status) = try await boards.with("idle") { replica in
            try await replica.dispatch(action: [1, 1])
            return (Weak(replica.store), replica.status)
        }
        let lease = try await boards.lease("used")
        await clock.sleepers(1)
        clock.advance(by: .seconds(60))
        for await status in status.states where status.condition == .closed { break }
        #expect(await idle.isGone())
        #expect(boards.keys == ["used"])
        #expect(lease.member.status.state.condition == .following)
        try await lease.member.dispatch(action: [2, 1])
        // The next request joins again: another replica of the same log.
        try await boards.with("idle") { replica in
            #expect(replica.status !== status && replica.lines == [[1, 1]])
            try await replica.dispatch(action: [1, 2])
        }
        lease.release()
        let report = await boards.shutdown(within: .seconds(1))
        #expect(Set(report.closed) == ["idle", "used"])
    }
}
