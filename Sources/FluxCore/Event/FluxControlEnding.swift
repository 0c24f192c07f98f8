import Dispatch
import Synchronization

/// How the events of a creator end, one by one and all together, and who waits for that.
nonisolated extension FluxControl {
    // MARK: - Ending

    /// A task has ended.
    func ended(_ task: FluxTask, _ outcome: FluxTask.Outcome, isSupervised: Bool) {
        tally.count(outcome, task.count)
        if isSupervised { decide { $0.ended(task, outcome, &$1) } }
    }

    /// A pass over those in flight is due for every so many that end.
    var isSweepDue: Bool { tally.ended >= nextSweep.load(ordering: .sequentiallyConsistent) }

    /// Lets go of the tasks that have ended.
    func sweep() {
        let ended = flights.withLock { flights in
            let (ended, left) = flights.sweep()
            let next = flights.isLeft ? 0 : tally.ended + max(left, Self.leastSweep)
            nextSweep.store(next, ordering: .sequentiallyConsistent)
            return ended
        }
        for task in ended { task.release() }
    }

    /// The same for the last one that ended; once it is settled, only this call keeps the control.
    func sweep(settling task: FluxTask) {
        let keeper = Unmanaged.passRetained(self)
        task.settle()
        sweep()
        keeper.release()
    }

    /// Lets go of all tasks, as all have ended.
    ///
    /// The control must not go before they are settled. With rules they keep it, and the last to settle lets go of it.
    func letGo() {
        // The tasks are retained: whoever settles one sweeps, and lets go of all that are settled.
        let (late, ruled) = flights.withLock { flights in
            flights.isLeft = true
            nextSweep.store(0, ordering: .sequentiallyConsistent)
            return (isRuled ? [] : flights.unsettled(), fluxTake(&flights.ruled))
        }
        for sleeper in ruled?.sleepers ?? [] { sleeper.cancel() }
        for task in late { fluxWait(upTo: .seconds(60)) { task.isSettled } }
        sweep()
    }

    func cancelAll() {
        fluxStopInsideHandle("cancelAll()")
        // The last first: the end of one that runs must not start those that wait for it.
        let tasks = flights.withLock { $0.open() }
        for task in tasks.reversed() { task.end(.cancelled) }
        FluxTask.awaitDispatches(of: tasks)
    }

    var inFlight: Int {
        fluxStopInsideHandle("inFlight")
        // Counted, for what has just ended may not have been tallied yet.
        return flights.withLock { $0.countOpen() }
    }

    func flush() async {
        fluxStopInsideHandle("flush()")
        await flush(inside: conversionOfCaller)
    }

    /// The task whose conversion the calling Swift task runs, if it is one of this creator.
    private var conversionOfCaller: FluxTask? {
        let caller = FluxTask.caller
        return flights.withLock { $0.task(runBy: caller) }
    }

    private func flush(inside conversion: FluxTask?) async {
        if let conversion {
            // It waits for each by itself, and for none that waits for it.
            for task in flights.withLock({ $0.open() }) where task !== conversion {
                await task.ended(unlessItNeeds: conversion)
            }
            return
        }
        let latch = FluxLatch()
        flights.withLock { if $0.wait(latch) { latch.enter() } }
        await latch.wait()
    }

    func shutdown(within duration: Swift.Duration) async -> FluxShutdown {
        fluxStopInsideHandle("shutdown(within:)")
        flights.withLock { $0.isShutDown = true }
        let (conversion, deadline) = (conversionOfCaller, FluxDeadline(in: duration, on: clock))
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.flush(inside: conversion) }
            group.addTask { try? await deadline.reached() }
            await group.next()
            group.cancelAll()
        }
        let latch = FluxLatch()
        latch.enter()
        // What may have to wait keeps no thread of the tasks' pool.
        DispatchQueue.global().async {
            self.cancelAll()
            // Each is tallied a moment after it has ended, by the thread that ended it.
            let late = self.flights.withLock { $0.unsettled() }
            fluxWait(upTo: .seconds(2)) { late.allSatisfy(\.isSettled) }
            latch.leave()
        }
        await latch.waitToTheEnd()
        return tally.totals
    }

    // MARK: - Those who wait for each other

    /// A conversion awaits a task: whatever is decided from now on may make it wait in vain.
    func suspect(_ suspect: FluxSuspect) {
        flights.withLock { $0.ruled?.suspect(suspect) }
    }

    func clear(_ suspect: FluxSuspect) {
        flights.withLock { $0.ruled?.clear(suspect) }
    }

    func ahead(of task: FluxTask) -> FluxAhead {
        isRuled ? flights.withLock { $0.ruled?.ahead(of: task) ?? FluxAhead() } : FluxAhead()
    }
}
