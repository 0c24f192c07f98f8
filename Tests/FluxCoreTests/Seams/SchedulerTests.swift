import Dispatch
import FluxCore
import TestSupport
import Testing

/// The scheduler seam: calls on a ticket are enqueued, and all notifications come in one order.
@Suite struct SchedulerTests {
    let store = FluxStore(initialState: Log(), dispatcher: nil)

    private func creator(
        _ schedulers: [any FluxScheduler], _ site: WorkConverter.Site = .init()
    ) -> FluxActionCreator<WorkConverter> {
        FluxActionCreator(dependency: site, store: store, schedulers: schedulers) { _, _ in }
    }

    @Test func `Each of two schedulers is notified of an event's firing and end`() async {
        let (first, second) = (Scheduling(), Scheduling())
        let creator = creator([first, second])
        #expect(await creator.fire(.add(1)).outcome.isCompleted)
        await creator.flush()
        await first.notes.count(2)
        #expect(first.notes.values == [.fired("add(1)"), .ended("add(1)", "completed")])
        #expect(second.notes.values == first.notes.values)
    }

    /// Starts every event, and records its notifications in a list that several schedulers share.
    final class Named: FluxScheduler {
        let (name, told): (String, Recorder<String>)
        init(_ name: String, _ told: Recorder<String>) { (self.name, self.told) = (name, told) }
        func fired(_ ticket: FluxTicket) {
            told.record("\(name) fired")
            ticket.start()
        }
        func ended(_ ticket: FluxTicket, _ outcome: FluxTask.Outcome) { told.record("\(name) ended") }
    }

    @Test func `Schedulers are notified of the firing in order and of the end in reverse order`() async {
        let told = Recorder<String>()
        _ = await creator([Named("one", told), Named("two", told)]).fire(.add(1)).outcome
        #expect(told.values == ["one fired", "two fired", "two ended", "one ended"])
    }

    @Test func `A held event is in flight and is converted once, however often it is started`() async {
        let scheduler = Scheduling(starting: { _ in })
        let (creator, second) = (creator([scheduler]), Scheduling())
        let task = creator.fire(.add(1))
        #expect(creator.inFlight == 1)
        let ticket = scheduler.ticket("add(1)")
        for _ in 0..<3 { ticket?.start() }
        #expect(await task.outcome.isCompleted)
        await creator.flush()
        ticket?.start()
        ticket?.drop()
        ticket?.cancel()
        #expect(await creator.fire(.nothingToDo, on: nil, starting: scheduler).isCompleted)
        #expect(store.state.entries == [1, 0])
        withExtendedLifetime(second) {}
    }

    @Test func `A second scheduler is not notified of an event that the first one drops`() async {
        let (first, second) = (Scheduling(starting: { $0.drop() }), Scheduling())
        let task = creator([first, second]).fire(.add(1))
        #expect(await task.outcome.isDropped)
        await first.notes.count(2)
        #expect(first.notes.values == [.fired("add(1)"), .ended("add(1)", "dropped")])
        #expect(second.notes.values.isEmpty)
        #expect(store.state.entries.isEmpty)
        var life: [String] = []
        for await event in task.events { life.append(event.name) }
        #expect(life == ["dropped"])
    }

    @Test func `Starting an ended event notifies no scheduler`() async {
        let (first, second) = (Scheduling(starting: { _ in }), Scheduling())
        let creator = creator([first, second])
        let task = creator.fire(.add(1))
        let ticket = first.ticket("add(1)")
        ticket?.drop()
        #expect(await task.outcome.isDropped)
        ticket?.start()
        let next = creator.fire(.add(2))
        first.ticket("add(2)")?.start()
        #expect(await next.outcome.isCompleted)
        await first.notes.count(4)
        #expect(first.notes.values.count == 4, "\(first.notes.values)")
        #expect(second.notes.values == [.fired("add(2)"), .ended("add(2)", "completed")])
    }

    @Test func `An event started twice in one notification begins once`() async {
        let site = WorkConverter.Site { $0 == 1 }
        let scheduler = Scheduling(starting: { ticket in
            ticket.start()
            ticket.start()
        })
        let creator = creator([scheduler], site)
        let task = creator.fire(.add(1))
        #expect(await creator.fire(.add(2)).outcome.isCompleted)
        #expect(site.started.values == [1, 2])
        site.gate(1).open()
        #expect(await task.outcome.isCompleted)
    }

    /// Drops the newest event that it holds when another has ended.
    final class Chain: FluxScheduler {
        let tickets = FluxLock<[FluxTicket]>([])
        func fired(_ ticket: FluxTicket) { tickets.withLock { $0.append(ticket) } }
        func ended(_ ticket: FluxTicket, _ outcome: FluxTask.Outcome) { dropNext() }
        func dropNext() { tickets.withLock { $0.popLast() }?.drop() }
    }

    @Test(.timeLimit(.minutes(1))) func `The end of one event may end the next, however long the chain`() async {
        let chain = Chain()
        let creator = creator([chain])
        let tasks = (0..<100).map { creator.fire(.add($0)) }
        chain.dropNext()
        for task in tasks { #expect(await task.outcome.isDropped) }
    }

    @Test func `An event dropped after its start ends as cancelled`() async {
        let (scheduler, site, failures) = (Scheduling(), WorkConverter.Site { _ in true }, Recorder<String>())
        let creator = FluxActionCreator<WorkConverter>(dependency: site, store: store, schedulers: [scheduler]) {
            error, _ in failures.record("\(error)")
        }
        let task = creator.fire(.add(1))
        await site.started.count(1)
        scheduler.ticket("add(1)")?.drop()
        #expect(await task.outcome.isCancelled)
        // Its Swift task is cancelled too; what it still sends is not reported as an error.
        site.gate(1).open()
        await site.ended.count(1)
        await creator.flush()
        await scheduler.notes.count(2)
        #expect(scheduler.notes.values.last == .ended("add(1)", "cancelled"))
        #expect(failures.values.isEmpty && store.state.entries.isEmpty)
    }

    @Test func `An event cancelled during fired leaves nothing behind`() async {
        let scheduler = Scheduling(starting: { ticket in
            ticket.cancel()
            ticket.start()
        })
        let creator = creator([scheduler])
        for number in 0..<200 { #expect(await creator.fire(.add(number)).outcome.isCancelled) }
        await creator.flush()
        await scheduler.notes.count(400)
        for number in 0..<200 { #expect(scheduler.ticket("add(\(number))") == nil) }
        #expect(creator.inFlight == 0)
    }

    @Test(.timeLimit(.minutes(1)))
    func `An outcome is known after the scheduler sees the end, even if the firing thread is blocked`() async {
        let (tickets, blocked, began) = (Recorder<FluxTicket>(), DispatchSemaphore(value: 0), Gate())
        let scheduler = Scheduling(starting: { ticket in
            ticket.start()
            // The second event cancels the first, on the thread that fires the second.
            tickets.values.first?.cancel()
            tickets.record(ticket)
        })
        let creator = FluxActionCreator<NestedConverter>(
            dependency: (), store: FluxStore(initialState: Counter(), dispatcher: nil), schedulers: [scheduler])
        // Uses a separate queue: if the cancellation comes before the sleep, the conversion blocks this queue and not
        // that of the other.
        let own = DispatchQueue(label: "one")
        creator.fire(
            .init("one") {
                try await withTaskCancellationHandler {
                    began.open()
                    try await Task.sleep(for: .seconds(1_000_000))
                } onCancel: {
                    blocked.wait()
                }
            }, on: own)
        await began.opened()
        DispatchQueue.global().async { creator.fire(.init("other")) }
        await tickets.count(2)
        let other = tickets.values[1]
        #expect(await other.task.outcome.isCompleted)
        #expect(scheduler.notes.values.contains(.ended("\(other.event)", "completed")))
        blocked.signal()
    }

    @Test(.stress)
    func `Stress: a scheduler sees the end of each event that it sees fired, despite cancellation`() async {
        let scheduler = Scheduling()
        let creator = creator([scheduler])
        let count = Locked(0)
        await onThreads(2) { thread in
            while count.current < 2_000 {
                if thread == 1 {
                    creator.cancelAll()
                } else {
                    creator.fire(.add(count.current))
                    count.withLock { $0 += 1 }
                }
            }
        }
        await creator.flush()
        #expect(creator.inFlight == 0)
        let told = scheduler.notes.values.count { if case .fired = $0 { true } else { false } }
        await scheduler.notes.count(2 * told)
        var (fired, ended) = (Set<String>(), Set<String>())
        for note in scheduler.notes.values {
            switch note {
            case .fired(let name): #expect(fired.insert(name).inserted)
            case .ended(let name, _): #expect(fired.contains(name) && ended.insert(name).inserted)
            case .retries: Issue.record("nothing has failed")
            }
        }
        #expect(ended == fired && scheduler.all.isEmpty)
        #expect(await creator.fire(.add(0)).outcome.isCompleted)
    }

    @Test func `Attempts are counted, and the outcome is that of the last attempt`() async {
        let attempts = Recorder<Int>()
        let scheduler = Scheduling(retrying: { ticket, attempt in
            attempts.record(attempt)
            ticket.start()
            return attempt < 4
        })
        let site = WorkConverter.Site()
        let task = creator([scheduler], site).fire(.fail(3))
        guard let error = await task.outcome.error as? WorkConverter.Failure else {
            Issue.record("did not fail")
            return
        }
        #expect(error.number == 3)
        #expect(attempts.values == [1, 2, 3, 4])
        #expect(site.attempts.values.count == 4)
        #expect(store.state.entries == [-1], "the last action comes once, with the last attempt")
        var life: [String] = []
        for await event in task.events { life.append(event.name) }
        #expect(life == ["started", "retrying 1", "retrying 2", "retrying 3", "sent", "failed"])
    }

    @Test func `A task that follows a retry on an executor of its own may use the store at once`() async {
        let site = WorkConverter.Site { _ in true }
        let task = creator([retrying { $0 == 1 }], site).fire(.fail(1))
        await site.started.count(1)
        // Runs on this thread until it waits for the second event; the thread that wakes it continues it.
        let following = Task(executorPreference: InlineExecutor()) { [store] in
            var life: [String] = []
            for await event in task.events { life.append("\(event.name) \(store.state.entries.count)") }
            return life
        }
        site.gate(1).open()
        #expect(await following.value == ["started 0", "retrying 1 0", "sent 1", "failed 1"])
    }

    @Test func `The first scheduler that agrees to a retry takes it, and the next one is not called`() async {
        let (first, second) = (retrying { $0 == 1 }, retrying { $0 == 2 })
        _ = await creator([first, second]).fire(.fail(3)).outcome
        await first.notes.count(5)
        await second.notes.count(4)
        #expect(
            first.notes.values == [
                .fired("fail(3)"), .retries("fail(3)", 1), .retries("fail(3)", 2), .retries("fail(3)", 3),
                .ended("fail(3)", "failed"),
            ])
        #expect(
            second.notes.values == [
                .fired("fail(3)"), .retries("fail(3)", 2), .retries("fail(3)", 3), .ended("fail(3)", "failed"),
            ])
    }

    /// Records the conversion of each attempt; the test sends and ends through it.
    enum Attempting: FluxActionConverter {
        struct Event: FluxEvent { let conversions: Recorder<FluxConversion<Attempting>> }
        struct Failure: Error {}
        static var sharesConversions: Bool { false }
        static func convert(event: Event, dependency: Void, actionHandler: @escaping (Counter.Action) -> Void) {}
        static func start(_ conversion: FluxConversion<Attempting>) { conversion.event.conversions.record(conversion) }
    }

    /// Returns an event whose first attempt has begun, its conversions, and the errors that its creator reports.
    private func begun(
        under scheduler: Scheduling
    ) async -> (task: FluxTask, conversions: Recorder<FluxConversion<Attempting>>, errors: Recorder<String>) {
        let (conversions, errors) = (Recorder<FluxConversion<Attempting>>(), Recorder<String>())
        let creator = FluxActionCreator<Attempting>(dependency: (), store: store, schedulers: [scheduler]) { error, _ in
            errors.record("\(type(of: error))")
        }
        let task = creator.fire(.init(conversions: conversions))
        await conversions.count(1)
        return (task, conversions, errors)
    }

    /// Returns a scheduler that retries at once after the attempts that a closure selects.
    private func retrying(_ isRetried: @escaping @Sendable (_ attempt: Int) -> Bool) -> Scheduling {
        Scheduling(retrying: { ticket, attempt in
            ticket.start()
            return isRetried(attempt)
        })
    }

    @Test func `An earlier attempt can no longer send or end`() async {
        let scheduler = retrying { _ in true }
        let (task, conversions, late) = await begun(under: scheduler)
        conversions.values[0].send(.add(1))
        conversions.values[0].end(.failed(Attempting.Failure()))
        await conversions.count(2)
        conversions.values[0].send(.add(-1))
        conversions.values[0].end(.completed)
        #expect(conversions.values.map(\.attempt) == [1, 2])
        conversions.values[1].send(.add(2))
        conversions.values[1].end(.completed, sending: .add(3))
        #expect(await task.outcome.isCompleted)
        #expect(store.state.entries == [1, 2, 3])
        #expect(late.values == ["FluxLateAction"])
    }

    @Test func `An action sent before another attempt is part of the event's life`() async {
        let scheduler = retrying { _ in true }
        let (task, conversions, _) = await begun(under: scheduler)
        conversions.values[0].send(.add(1))
        conversions.values[0].end(.failed(Attempting.Failure()))
        await conversions.count(2)
        conversions.values[1].send(.add(2))
        conversions.values[1].end(.completed)
        let life = await task.events.reduce(into: []) { $0.append($1.name) }
        #expect(life == ["started", "sent", "retrying 1", "sent", "completed"])
    }

    @Test func `A late loop over the life of an event finds the start and the last of many attempts`() async {
        let scheduler = retrying { $0 <= 70 }
        let task = creator([scheduler]).fire(.fail(3))
        _ = await task.outcome
        let life = await task.events.reduce(into: []) { $0.append($1.name) }
        #expect(life == ["started"] + (7...70).map { "retrying \($0)" } + ["sent", "failed"])
    }

    @Test func `A conversion sends nothing after end has returned, even while a scheduler decides on a retry`() async {
        let (asked, gate) = (Gate(), DispatchSemaphore(value: 0))
        let scheduler = Scheduling(retrying: { _, _ in
            asked.open()
            gate.wait()
            return false
        })
        let (task, conversions, late) = await begun(under: scheduler)
        let conversion = conversions.values[0]
        DispatchQueue.global().async { conversion.end(.failed(Attempting.Failure())) }
        await asked.opened()
        conversion.end(.completed)
        #expect(conversion.isOver)
        conversion.send(.add(1))
        gate.signal()
        #expect(await task.outcome.error != nil)
        #expect(store.state.entries.isEmpty && late.values == ["FluxLateAction", "Failure"])
    }

    @Test func `A cancelled event that fails is not retried`() async {
        let scheduler = Scheduling(retrying: { _, _ in true })
        let (task, conversions, errors) = await begun(under: scheduler)
        #expect(!conversions.values[0].isOver)
        task.cancel()
        #expect(conversions.values[0].isOver)
        conversions.values[0].end(.failed(Attempting.Failure()))
        #expect(await task.outcome.isCancelled && errors.values.isEmpty)
        await scheduler.notes.count(2)
        #expect(!scheduler.notes.values.contains { if case .retries = $0 { true } else { false } })
    }

    @Test func `A conversion that ends with dropped is cancelled, because it has started`() async {
        let (task, conversions, _) = await begun(under: Scheduling())
        conversions.values[0].end(.dropped)
        #expect(await task.outcome.isCancelled)
    }

    @Test func `A cancelled event does not begin another attempt`() async {
        let queue = DispatchQueue(label: "held")
        let scheduler = Scheduling(retrying: { ticket, _ in
            ticket.start()
            return true
        })
        let creator = FluxActionCreator<Attempting>(dependency: (), store: store, schedulers: [scheduler])
        let conversions = Recorder<FluxConversion<Attempting>>()
        let task = creator.fire(.init(conversions: conversions), on: queue)
        await conversions.count(1)
        queue.suspend()
        conversions.values[0].end(.failed(Attempting.Failure()))
        task.cancel()
        queue.resume()
        queue.sync {}
        #expect(await task.outcome.isCancelled)
        #expect(conversions.values.count == 1)
    }

    enum AtOnce: FluxActionConverter {
        struct Event: FluxEvent { let body: @Sendable () -> Void }
        static var startsAtOnce: Bool { true }
        static func convert(event: Event, dependency: Void, actionHandler: @escaping (Counter.Action) -> Void) {
            event.body()
            actionHandler(.add(1))
        }
    }

    @Test(arguments: [false, true])
    func `An event that starts at once has begun when fire returns, unless it is held`(isScheduled: Bool) async {
        let creator = FluxActionCreator<AtOnce>(
            dependency: (), store: store, schedulers: isScheduled ? [Scheduling(), Scheduling()] : [])
        for number in 1...100 {
            let thread = Locked(false)
            creator.fire(.init { thread.withLock { $0 = true } })
            #expect(thread.current && store.state.entries.count == number)
        }
        creator.fire([.init {}, .init {}])
        #expect(store.state.entries.count == 102, "also where several are fired together")
        let holding = Scheduling(starting: { _ in })
        let held = FluxActionCreator<AtOnce>(dependency: (), store: store, schedulers: [holding])
        let task = held.fire(.init {})
        #expect(store.state.entries.count == 102)
        holding.cancelAll()
        #expect(await task.outcome.isCancelled)
        let late = held.fire(.init {})
        for ticket in holding.all { ticket.start() }
        #expect(await late.outcome.isCompleted)
        #expect(store.state.entries.count == 103, "held, it begins when it is started")
    }

    /// Starts and cancels events while it holds its own lock.
    final class Locking: FluxScheduler {
        let tickets = FluxLock<[FluxTicket]>([])
        func fired(_ ticket: FluxTicket) {
            tickets.withLock { tickets in
                tickets.append(ticket)
                if tickets.count > 1 { tickets[0].cancel() }
                ticket.start()
            }
        }
        func ended(_ ticket: FluxTicket, _ outcome: FluxTask.Outcome) {
            tickets.withLock { $0.removeAll { $0 === ticket } }
        }
        func startAll() { tickets.withLock { for ticket in $0 { ticket.start() } } }
    }

    @Test(.stress)
    func `Stress: two schedulers shared in opposite order do not deadlock while holding their locks`() async {
        let (one, other) = (Locking(), Locking())
        let creators = [creator([one, other]), creator([other, one])]
        await onThreads(4) { thread in
            for number in 0..<500 {
                if thread < 2 {
                    creators[thread].fire(number % 7 == 0 ? .fail(0) : .add(number))
                } else if thread == 2 {
                    one.startAll()
                    other.startAll()
                } else {
                    creators[number % 2].cancelAll()
                }
            }
        }
        for creator in creators {
            creator.cancelAll()
            await creator.flush()
            #expect(creator.inFlight == 0)
            let account = await creator.shutdown(within: .zero)
            #expect(account.completed + account.failed + account.cancelled == 500 && account.unfinished == 0)
        }
    }

    @Test(.stress) func `Stress: events held by a scheduler begin in the order in which it starts them`() async {
        let scheduler = Scheduling(starting: { _ in })
        let creator = creator([scheduler])
        for round in 0..<50 {
            for number in 0..<20 { creator.fire(.add(round * 20 + number)) }
            for number in 0..<20 { scheduler.ticket("add(\(round * 20 + number))")?.start() }
        }
        await creator.flush()
        #expect(store.state.entries == Array(0..<1_000))
    }
}

extension Scheduling {
    func cancelAll() { for ticket in all { ticket.cancel() } }
}

extension FluxActionCreator<WorkConverter> {
    /// Fires an event that a scheduler holds, starts it, and returns its outcome.
    fileprivate func fire(_ event: WorkConverter.Event, on queue: DispatchQueue?, starting scheduler: Scheduling) async
        -> FluxTask.Outcome
    {
        let task: FluxTask = fire(event, on: queue)
        scheduler.ticket("\(event)")?.start()
        return await task.outcome
    }
}

extension WorkConverter.Event {
    fileprivate static var nothingToDo: Self { .add(0) }
}
