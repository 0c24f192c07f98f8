import FluxCore
import TestSupport
import Testing

/// An outcome tells whether the work completed, without a pattern, and an account counts all four ends separately.
@Suite struct OutcomesAndAccountsTests {
    private func creator(_ site: WorkConverter.Site = .init()) -> FluxActionCreator<WorkConverter> {
        FluxActionCreator(dependency: site, store: FluxStore(initialState: Counter(), dispatcher: nil))
    }

    @Test func `isCompleted is true only for the outcome of completed work`() async {
        let site = WorkConverter.Site { $0 == 3 }
        let creator = creator(site)
        #expect(await creator.fire(.add(1)).outcome.isCompleted)
        #expect(await !creator.fire(.fail(2)).outcome.isCompleted)
        let cancelled = creator.fire(.add(3))
        cancelled.cancel()
        #expect(await !cancelled.outcome.isCompleted)
        site.gate(3).open()
        _ = await creator.shutdown(within: .zero)
        #expect(await !creator.fire(.add(4)).outcome.isCompleted)
    }

    @Test func `An account counts completed, failed, cancelled and dropped events`() async {
        let site = WorkConverter.Site { $0 == 9 }
        let creator = creator(site)
        creator.fire([.add(1), .fail(2), .add(3), .fail(4), .fail(5)])
        await creator.flush()
        creator.fire(.add(9)).cancel()
        site.gate(9).open()
        _ = await creator.shutdown(within: .zero)
        _ = await creator.fire(.add(6)).outcome
        let account = await creator.shutdown(within: .zero)
        #expect(account.completed == 2 && account.failed == 3)
        #expect(account.cancelled == 1 && account.dropped == 1)
        #expect(account.unfinished == 0 && creator.inFlight == 0)
    }

    @Test func `An account counts the events that the shutdown itself has cancelled`() async {
        let site = WorkConverter.Site { _ in true }
        let creator = creator(site)
        creator.fire([.add(1), .add(2)])
        await site.started.count(2)
        let account = await creator.shutdown(within: .zero)
        #expect(account.cancelled == 2 && account.unfinished == 0)
        site.gate(1).open()
        site.gate(2).open()
        await site.ended.count(2)
    }

    @Test func `An observer is notified of an end while the event still counts as in flight`() async {
        /// Records how many events are in flight when it is notified of an end.
        final class Onlooker: FluxStoreObserver {
            typealias State = Counter
            let creator = FluxLock<FluxActionCreator<WorkConverter>?>(nil)
            let seen = FluxLock<[Int]>([])

            func ended(_ event: any FluxEvent, _ outcome: FluxTask.Outcome, _ task: FluxTask) {
                let inFlight = creator.withLock { $0 }?.inFlight ?? -1
                seen.withLock { $0.append(inFlight) }
            }
            func applied(
                _ change: FluxChange<Counter>, _ state: Counter, revision: UInt64?
            ) -> (any FluxSettling)? { nil }
        }
        let (store, onlooker) = (FluxStore(initialState: Counter(), dispatcher: nil), Onlooker())
        store.handle.withAccess { $0.observe(onlooker) }
        let creator = FluxActionCreator<WorkConverter>(dependency: .init { $0 == 2 }, store: store)
        onlooker.creator.withLock { $0 = creator }
        _ = await creator.fire(.add(1)).outcome
        #expect(onlooker.seen.withLock { $0 } == [1])
        let cancelled = creator.fire(.add(2))
        cancelled.cancel()
        #expect(onlooker.seen.withLock { $0 } == [1, 1])
        #expect(creator.inFlight == 0)
        onlooker.creator.withLock { $0 = nil }
    }
}
