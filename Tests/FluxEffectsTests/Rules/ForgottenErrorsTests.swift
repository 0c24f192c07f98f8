import FluxCore
import FluxEffects
import TestSupport
import Testing

/// Of the errors that an event was tried again after the latest 64 are kept; those before go with no lock held.
@Suite struct ForgottenErrorsTests {
    private struct Failure: Error { let farewell: Farewell }

    private enum FailingConverter: FluxAsyncActionConverter {
        struct Event: FluxEvent {}

        static func convert(
            event: Event, dependency: FluxStore<Counter>, send: @escaping @Sendable (Counter.Action) -> Void
        ) async throws { throw Failure(farewell: Farewell(to: dependency)) }
    }

    @Test func `An error that is kept no longer may use the library when it goes`() async {
        await #expect(processExitsWith: .success) {
            let target = FluxStore(initialState: Counter(), dispatcher: nil)
            let creator = FluxActionCreator<FailingConverter>(
                dependency: target, store: FluxStore(initialState: Counter(), dispatcher: nil),
                rules: [.retry(limit: 70)], onFailure: { _, _ in })
            let outcome = await creator.fire(.init()).outcome
            #expect(outcome.error is Failure)
            // All but the 64 that the task has kept, and the last, which it failed with.
            #expect(target.state.count >= 6)
        }
    }
}
