import Explorer
import Flux

/// A cancel never waits, and no further action passes; the outcome is known after the last.
///
/// The scenarios also cover what builds on this: rules, retries, shutdowns, and flushes of creators.
enum C9 {
    static let scenarios = [
        Scenario("c9-cancel-while-sending", "After a cancel no action passes, and the outcome comes after the last one")
        { scene in
            let store = makeLog()
            let creator = FluxActionCreator<Sending>(store: store)
            let task = creator.fire(.add([1, 2]))
            scene.thread("cancels") {
                task.cancel()
                let (count, outcome) = (store.entries.count, task.isCancelled)
                scene.point()
                // An action that had passed may still be on its way.
                if outcome { scene.expect(store.entries.count <= count + 1, "more than one action was on its way") }
            }
            scene.task("awaits") {
                let outcome = await task.outcome
                let count = store.entries.count
                scene.expect(creator.inFlight, is: 0, "in flight when the outcome is known")
                if case .completed = outcome { scene.expect(count, is: 2, "applied at the end") }
                scene.point()
                scene.expect(store.entries.count, is: count, "applied after the end")
            }
        },
        Scenario(
            "c9-cancel-before-start", "An event cancelled as it starts is cancelled or applied; no other event is lost"
        ) { scene in
            let (store, task) = (makeLog(), Noted<FluxTask?>(nil))
            let creator = FluxActionCreator<Sending>(store: store)
            scene.thread("fires and cancels") {
                let fired = creator.fire(.add([1]))
                fired.cancel()
                task.value = fired
            }
            scene.thread("fires") { creator.fire(.add([2])) }
            scene.finally {
                scene.expect(store.entries.contains(2), "the other event was lost")
                if task.value?.isCancelled == false {
                    scene.expect(store.entries.contains(1), "completed, but not applied")
                }
                task.value = nil
            }
        },
        Scenario("c9-cancel-async", "A cancelled asynchronous conversion sends nothing after its outcome") { scene in
            let (store, atEnd) = (makeLog(), Noted<[Int]?>(nil))
            let creator = FluxActionCreator<Working>(store: store)
            let task = creator.fire(.work(1))
            scene.thread("cancels") {
                task.cancel()
                let (count, isCancelled) = (store.entries.count, task.isCancelled)
                scene.point()
                // An action that had passed may still be on its way.
                if isCancelled { scene.expect(store.entries.count <= count + 1, "more than one was on its way") }
            }
            scene.task("awaits") {
                let outcome = await task.outcome
                let entries = store.entries
                scene.expect(creator.inFlight, is: 0, "in flight when the outcome is known")
                if outcome.isCompleted {
                    scene.expect(entries, is: [10, 11], "applied at the end")
                } else {
                    scene.expect(outcome.isCancelled, "\(outcome)")
                    scene.expect([[], [10], [10, 11]].contains(entries), "applied \(entries)")
                }
                atEnd.value = entries
            }
            // By then the conversion has returned, too.
            scene.finally { scene.expect(store.entries, is: atEnd.value ?? [-1], "applied after the end") }
        },
        Scenario("c9-swift-task-cancelled", "Cancelling an event cancels the Swift task of its conversion") { scene in
            let creator = FluxActionCreator<Sleeping>(dependency: ScenarioClock(isStopped: true), store: makeLog())
            let task = creator.fire(.init())
            scene.thread("cancels") { task.cancel() }
            scene.task("awaits") { scene.expect(await task.outcome.isCancelled, "the event was not cancelled") }
        },
        Scenario("c9-cancel-and-end", "Exactly one of a cancel and a failure with its last action wins") { scene in
            let (store, failures) = (makeLog(), Noted(0))
            let creator = FluxActionCreator<Working>(store: store) { _, _ in failures.value += 1 }
            let task = creator.fire(.fail(1))
            scene.thread("cancels") { task.cancel() }
            scene.task("awaits") {
                let outcome = await task.outcome
                scene.expect(outcome.isCancelled || outcome.error != nil, "\(outcome)")
                scene.expect(store.entries.contains(19), is: outcome.error != nil, "the last action was sent")
                scene.expect(failures.value, is: outcome.error == nil ? 0 : 1, "reported failures")
            }
        },
        Scenario("c9-cancel-kept-action", "An action kept by middleware is not applied once its event is cancelled") {
            scene in
            let (dispatcher, kept, isOver) = (FluxDispatcher(), Noted<FluxNext?>(nil), Noted(false))
            let store = makeLog(dispatcher)
            dispatcher.add(FluxInterceptor { _, next in kept.value = next })
            let creator = FluxActionCreator<Sending>(dispatcher: dispatcher)
            let task = creator.fire(.add([1]))
            scene.thread("goes on") {
                guard let next = kept.value else { return }
                let was = isOver.value
                next(Log.Action.add(1))
                if was { scene.expect(store.entries, is: [], "applied") }
            }
            scene.thread("cancels") {
                task.cancel()
                isOver.value = task.isCancelled
            }
            scene.finally { kept.value = nil }
        },
        Scenario("c9-cancel-all", "cancelAll() ends the events in flight, and none that is fired later") { scene in
            let store = makeLog()
            let creator = FluxActionCreator<Sending>(store: store)
            creator.fire(.add([1]))
            scene.thread("cancels") {
                creator.cancelAll()
                creator.fire(.add([3]))
            }
            scene.thread("fires") { creator.fire(.add([2])) }
            scene.finally {
                scene.expect(store.entries.contains(3), "the event fired later was lost")
                scene.expect(creator.inFlight, is: 0, "in flight")
            }
        },
        Scenario("c9-life", "The events of a task are complete, from its start to its end") { scene in
            let creator = FluxActionCreator<Sending>(store: makeLog())
            let task = creator.fire(.add([1, 2]))
            scene.thread("cancels") { task.cancel() }
            scene.task("looks") {
                var life: [String] = []
                for await event in task.events {
                    switch event {
                    case .started: life.append("started")
                    case .actionSent: life.append("sent")
                    case .retrying: life.append("retrying")
                    case .ended(let outcome): life.append(outcome.isCompleted ? "completed" : "cancelled")
                    }
                }
                scene.expect(life.last == "completed" || life.last == "cancelled", "\(life)")
                if life.last == "completed" {
                    scene.expect(life, is: ["started", "sent", "sent", "completed"], "the events of the task")
                }
            }
        },
        Scenario("c9-unique", "Only one of three unique events runs at a time, and no stale action follows a newer one")
        { scene in
            let store = makeLog()
            let creator = FluxActionCreator<Working>(store: store, rules: [.unique(cancelling: .earlier)])
            scene.thread("one") {
                creator.fire(.work(1))
                creator.fire(.work(2))
            }
            scene.thread("two") { creator.fire(.work(3)) }
            scene.finally {
                let numbers = store.entries.map { $0 / 10 }
                let changes = zip(numbers, numbers.dropFirst()).count { $0 != $1 }
                scene.expect(changes, is: Set(numbers).count - 1, "changes from one to another in \(store.entries)")
                scene.expect(Set(store.entries).count, is: store.entries.count, "each once")
                scene.expect(store.entries.last.map { $0 % 10 }, is: 1, "the last one ran to its end")
                scene.expect(creator.inFlight, is: 0, "in flight")
            }
        },
        Scenario("c9-sequence", "Three events in sequence run one after the other, even if one is cancelled") { scene in
            let store = makeLog()
            let creator = FluxActionCreator<Working>(store: store, rules: [.sequence()])
            let first = creator.fire(.work(1))
            scene.thread("fires") {
                creator.fire(.work(2))
                creator.fire(.work(3))
            }
            scene.thread("cancels") { first.cancel() }
            scene.finally {
                scene.expect(store.entries.filter { $0 > 19 }, is: [20, 21, 30, 31], "in sequence")
                scene.expect(
                    store.entries.prefix { $0 < 20 }.count, is: store.entries.count - 4, "the first came first")
                scene.expect(creator.inFlight, is: 0, "in flight")
            }
        },
        Scenario("c9-concurrency", "With a limit of one, three events run one at a time, and all of them run") {
            scene in
            let (store, limit) = (makeLog(), FluxLimit(1))
            let one = FluxActionCreator<Working>(store: store, rules: [.concurrency(limit)])
            let two = FluxActionCreator<Working>(store: store, rules: [.concurrency(limit)])
            scene.thread("one") {
                one.fire(.work(1))
                one.fire(.work(2))
            }
            scene.thread("two") { two.fire(.work(3)) }
            scene.finally {
                scene.expect(store.entries.sorted(), is: [10, 11, 20, 21, 30, 31], "applied")
                for index in stride(from: 0, to: 6, by: 2) {
                    scene.expect(
                        store.entries[index] / 10 == store.entries[index + 1] / 10, "two at once: \(store.entries)")
                }
            }
        },
        Scenario("c9-rules-keep-order", "Events that rules admit at once are converted in the order fired") { scene in
            let store = makeLog()
            let creator = FluxActionCreator<Sending>(store: store, rules: [.concurrency(3)])
            scene.thread("one") {
                creator.fire(.add([1]))
                creator.fire(.add([2]))
            }
            scene.thread("two") { creator.fire(.add([3])) }
            scene.finally {
                scene.expect([1, 2], in: store.entries, "one's")
                scene.expect(store.entries.count, is: 3, "applied")
            }
        },
        Scenario("c9-rules-keep-order-behind", "No event of a thread overtakes an earlier one") { scene in
            let (store, gate) = (makeLog(), Gate())
            let creator = FluxActionCreator<Opening>(dependency: gate, store: store, rules: [.concurrency(3)])
            scene.thread("one") {
                creator.fire(.add(1))
                gate.pass()
                creator.fire(.add(2))
            }
            scene.thread("two") { creator.fire(.open) }
            scene.finally { scene.expect(store.entries, is: [1, 2], "applied") }
        },
        Scenario("c9-one-after-the-other", "A task that has awaited the outcome of an event finds its place free") {
            scene in
            let (store, limit) = (makeLog(), FluxLimit(1, waiting: 0))
            let rules: [FluxRule<Sending.Event>] = [.unique(cancelling: .later), .concurrency(limit)]
            let creator = FluxActionCreator<Sending>(store: store, rules: rules)
            let other = FluxActionCreator<Sending>(store: store, rules: [.concurrency(limit)])
            scene.task("fires") {
                for creator in [creator, creator, other] {
                    scene.expect(await creator.fire(.add([1])).outcome.isCompleted, "a place was still taken")
                }
            }
        },
        Scenario("c9-rule-and-end", "A thread that finds an event ended finds its place free") { scene in
            let store = makeLog()
            let creator = FluxActionCreator<Sending>(store: store, rules: [.unique(cancelling: .later)])
            scene.thread("fires") { creator.fire(.add([1])) }
            scene.task("comes after it") {
                if store.entries != [1] || creator.inFlight > 0 { return }
                scene.expect(await creator.fire(.add([2])).outcome.isCompleted, "the place was still taken")
            }
        },
        Scenario("c9-told-of-both", "An observer notified of a fired event is notified of its end") { scene in
            let (store, open) = (makeLog(), Noted(0))
            let creator = FluxActionCreator<Sending>(
                dependency: (), observers: { [Telling(open: open)] }, sending: { store.dispatch(action: $0) })
            scene.thread("fires") { creator.fire(.add([1])) }
            scene.thread("cancels") { creator.cancelAll() }
            scene.finally { scene.expect(open.value, is: 0, "still open") }
        },
        Scenario("c9-limits", "Two limits shared in opposite order let all events through") { scene in
            let (store, one, two) = (makeLog(), FluxLimit(1), FluxLimit(1))
            let there = FluxActionCreator<Sending>(store: store, rules: [.concurrency(one), .concurrency(two)])
            let back = FluxActionCreator<Sending>(store: store, rules: [.concurrency(two), .concurrency(one)])
            scene.thread("there") { there.fire(.add([1])) }
            scene.thread("back") { back.fire(.add([2])) }
            scene.finally { scene.expect(store.entries.sorted(), is: [1, 2], "applied") }
        },
        Scenario("c9-cancel-and-rule", "A cancel while a rule decides leaves nothing that blocks later events") {
            scene in
            let store = makeLog()
            let creator = FluxActionCreator<Sending>(store: store, rules: [.sequence()])
            let task = Noted<FluxTask?>(nil)
            scene.thread("fires") { task.value = creator.fire(.add([1])) }
            scene.thread("cancels") {
                task.value?.cancel()
                creator.cancelAll()
            }
            scene.finally {
                task.value = nil
                creator.fire(.add([2]))
            }
            scene.finally { scene.expect(store.entries.last, is: 2, "the next") }
        },
        Scenario("c9-retry", "An event that is retried but not cancelled ends with its last attempt") { scene in
            let store = makeLog()
            let creator = FluxActionCreator<Working>(
                dependency: (), store: store, rules: [.retry(limit: 1, backoff: .none)], onFailure: { _, _ in })
            let task = creator.fire(.fail(1))
            scene.thread("cancels") { task.cancel() }
            scene.task("awaits") {
                let outcome = await task.outcome
                scene.expect(store.entries.count { $0 == 19 }, is: outcome.error == nil ? 0 : 1, "last actions")
                scene.expect(store.entries.count { $0 == 10 } <= 2, "attempts: \(store.entries)")
            }
        },
        Scenario("c9-retry-late", "A late action of a failed attempt is refused once the next attempt has sent") {
            scene in
            let (store, sends) = (makeLog(), Noted<[@Sendable (Log.Action) -> Void]>([]))
            let creator = FluxActionCreator<Failing>(
                dependency: sends, store: store, rules: [.retry(limit: 1, backoff: .none)], onFailure: { _, _ in })
            creator.fire(.init())
            scene.thread("sends late") {
                let isLate = store.entries.contains(20)
                sends.value.first?(.add(11))
                if isLate { scene.expect(!store.entries.contains(11), "too late: \(store.entries)") }
            }
            scene.finally {
                scene.expect(store.entries.contains(20), "no second attempt: \(store.entries)")
                sends.value = []
            }
        },
        Scenario("c9-debounce", "Debounce runs the newest of several events, and drops the others") { scene in
            let (store, tasks) = (makeLog(), Noted<[FluxTask]>([]))
            let creator = FluxActionCreator<Sending>(
                store: store, rules: [.debounce(.milliseconds(10))], clock: ScenarioClock())
            scene.thread("one") {
                for entry in [1, 2] { tasks.value.append(creator.fire(.add([entry]))) }
            }
            scene.thread("two") { tasks.value.append(creator.fire(.add([3]))) }
            scene.finally {
                scene.expect(!store.entries.isEmpty, "none was run")
                scene.expect(store.entries.last != 1, "the newest was not run: \(store.entries)")
                scene.expect(creator.inFlight, is: 0, "in flight")
                tasks.value = []
            }
        },
        Scenario("c9-shutdown", "A shutdown accounts for each fired event, and accepts no more") { scene in
            let (store, fired, most) = (makeLog(), Noted(0), Noted(0))
            let creator = FluxActionCreator<Sending>(store: store, clock: ScenarioClock())
            scene.thread("fires") {
                for entry in [1, 2] {
                    creator.fire(.add([entry]))
                    fired.value += 1
                }
            }
            scene.task("shuts down") {
                let before = fired.value
                let report = await creator.shutdown(within: .seconds(1))
                let sum = report.completed + report.cancelled + report.dropped + report.unfinished + report.failed
                scene.expect(sum >= before && sum <= 2, "\(sum) accounted for, of at least \(before)")
                let count = store.entries.count
                scene.expect(count >= report.completed, "\(report.completed) completed, \(count) applied")
                scene.expect(creator.inFlight <= report.unfinished, "some events began after the shutdown")
                most.value = count + report.unfinished
                creator.fire(.add([3]))
            }
            scene.finally {
                scene.expect(!store.entries.contains(3), "an event was accepted after the shutdown")
                scene.expect(store.entries.count <= most.value, "an event was converted after the shutdown")
                scene.expect(creator.inFlight, is: 0, "in flight")
            }
        },
        Scenario("c9-shutdown-async", "A shutdown cancels the remaining events at its deadline, and they send no more")
        { scene in
            let (store, most) = (makeLog(), Noted(0))
            let creator = FluxActionCreator<Working>(store: store, clock: ScenarioClock())
            scene.thread("fires") { creator.fire(.work(1)) }
            scene.task("shuts down") {
                let report = await creator.shutdown(within: .seconds(1))
                most.value = store.entries.count + report.unfinished
            }
            scene.finally {
                scene.expect(store.entries.count <= most.value, "sent after the shutdown: \(store.entries)")
                scene.expect(creator.inFlight, is: 0, "in flight")
            }
        },
        Scenario("c9-shutdown-and-rule", "An event fired too late for a shutdown does not replace a running event") {
            scene in
            let (store, isDropped) = (makeLog(), Noted(false))
            let creator = FluxActionCreator<Working>(
                store: store, rules: [.unique(cancelling: .earlier)], clock: ScenarioClock(isStopped: true))
            creator.fire(.work(1))
            scene.task("shuts down") { await creator.shutdown(within: .seconds(1)) }
            scene.task("fires") { if case .dropped = await creator.fire(.work(2)).outcome { isDropped.value = true } }
            scene.finally {
                scene.expect(store.entries.suffix(2), is: isDropped.value ? [10, 11] : [20, 21], "the last")
            }
        },
        Scenario("c9-flush", "A flush of a creator returns once all events fired before have ended") { scene in
            let (store, fired) = (makeLog(), Noted<[Int]>([]))
            let creator = FluxActionCreator<Working>(store: store)
            scene.thread("fires") {
                creator.fire(.work(1))
                fired.value.append(11)
            }
            scene.task("flushes") {
                creator.fire(.work(2))
                let before = fired.value + [21]
                await creator.flush()
                for entry in before { scene.expect(store.entries.contains(entry), "\(entry) is missing") }
            }
        },
        Scenario("c9-flush-cancelled", "A cancelled flush returns, and one with a time limit says whether all is done")
        { scene in
            let (store, gate) = (makeLog(), Noted<FluxConversion<Held>?>(nil))
            let creator = FluxActionCreator<Held>(dependency: gate, store: store, clock: ScenarioClock())
            creator.fire(.init())
            let waits = scene.task("waits") { await creator.flush() }
            scene.task("waits for a while") {
                let isDone = await creator.flush(within: .seconds(1))
                scene.expect(!isDone, "the flush says that all is done")
            }
            scene.thread("cancels") { waits() }
            scene.finally { gate.value = nil }
        },
        Scenario("c9-flush-of-earlier", "A flush with a time limit waits for no event that is fired after it") {
            scene in
            let (store, gate, clock) = (makeLog(), Noted<FluxConversion<Held>?>(nil), NotingClock())
            let creator = FluxActionCreator<Held>(dependency: gate, store: store, clock: clock)
            // Creates the static values that an event needs.
            creator.fire(.init()).cancel()
            scene.task("flushes") { scene.expect(await creator.flush(within: .seconds(1)), "not flushed") }
            scene.thread("fires") {
                scene.point()
                if clock.isAsleep.value { creator.fire(.init()) }
            }
            scene.finally { gate.value = nil }
        },
        Scenario("c9-limit-is-free", "An event that waited for another one finds that one's place in a limit") {
            scene in
            let (store, limit) = (makeLog(), FluxLimit(1, waiting: 0))
            let creator = FluxActionCreator<Sending>(store: store, rules: [.sequence(), .concurrency(limit)])
            scene.thread("fires") {
                creator.fire(.add([1]))
                creator.fire(.add([2]))
            }
            scene.finally { scene.expect(store.entries, is: [1, 2], "applied") }
        },
        Scenario("c9-cancel-all-in-line", "cancelAll() starts no event that waits for one that it cancels") { scene in
            let store = makeLog()
            let creator = FluxActionCreator<Sending>(store: store, rules: [.sequence()])
            let first = creator.fire(.add([1]))
            creator.fire(.add([2]))
            scene.thread("cancels") { creator.cancelAll() }
            scene.task("looks") {
                let wasCancelled = await first.outcome.isCancelled
                await creator.flush()
                if wasCancelled { scene.expect(!store.entries.contains(2), "2 was started: \(store.entries)") }
            }
        },
    ]
}

/// Keeps the `send` closure of each attempt, sends ten times the attempt's number, and fails.
private enum Failing: FluxAsyncActionConverter {
    struct Event: FluxEvent {}

    static func convert(
        event: Event, dependency: Noted<[@Sendable (Log.Action) -> Void]>,
        send: @escaping @Sendable (Log.Action) -> Void
    ) async throws {
        dependency.value.append(send)
        send(.add(dependency.value.count * 10))
        throw Working.Failure()
    }
}

/// Ends when it is cancelled.
private enum Sleeping: FluxAsyncActionConverter {
    struct Event: FluxEvent {}

    static func convert(
        event: Event, dependency: ScenarioClock, send: @escaping @Sendable (Log.Action) -> Void
    ) async throws {
        try await dependency.sleep(for: .seconds(1))
    }
}

/// Never ends by itself, because its dependency keeps the conversion.
private enum Held: FluxActionConverter {
    struct Event: FluxEvent {}
    typealias Action = Log.Action

    static var sharesConversions: Bool { false }
    static func convert(
        event: Event, dependency: Noted<FluxConversion<Held>?>, actionHandler: @escaping (Action) -> Void
    ) {}
    static func start(_ conversion: FluxConversion<Self>) { conversion.dependency.value = conversion }
}

/// A clock that stands still, and notes that a task sleeps.
private struct NotingClock: Clock {
    let clock = ScenarioClock(isStopped: true)
    let isAsleep = Noted(false)

    var now: ScenarioClock.Instant { clock.now }
    var minimumResolution: Duration { clock.minimumResolution }

    func sleep(until deadline: ScenarioClock.Instant, tolerance: Duration?) async throws {
        isAsleep.value = true
        try await clock.sleep(until: deadline, tolerance: tolerance)
    }
}

/// Counts the events whose firing, but not whose end, has been reported.
private struct Telling: FluxEventObserver {
    let open: Noted<Int>

    func fired(_ event: any FluxEvent, _ task: FluxTask) { open.value += 1 }
    func ended(_ event: any FluxEvent, _ outcome: FluxTask.Outcome, _ task: FluxTask) { open.value -= 1 }
}
