import FluxCore
import TestSupport
import Testing

/// The account of a shutdown counts failed and completed events separately, for its reader after a deployment.
@Suite struct FailedEventsAreNotCompletedTests {
    @Test func `A failed event is not counted as completed`() async {
        let creator = FluxActionCreator<WorkConverter>(
            dependency: .init(), store: FluxStore(initialState: Counter(), dispatcher: nil))
        creator.fire([.add(1), .fail(2), .add(3), .fail(4), .fail(5)])
        await creator.flush()
        let account = await creator.shutdown(within: .zero)
        #expect(account.completed == 2 && account.failed == 3)
        #expect(account.cancelled == 0 && account.dropped == 0)
    }

    @Test func `An event that fails after its last retry is counted as failed`() async {
        let creator = FluxActionCreator<WorkConverter>(
            dependency: .init(), store: FluxStore(initialState: Counter(), dispatcher: nil),
            schedulers: [
                Scheduling(retrying: { ticket, attempt in
                    ticket.start()
                    return attempt < 3
                })
            ])
        creator.fire(.fail(2))
        await creator.flush()
        #expect(await creator.shutdown(within: .zero).failed == 1)
    }
}
