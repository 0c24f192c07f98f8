import FluxCore
import FluxEffects
import TestSupport
import Testing

/// A task keeps the latest 64 errors after which its event was retried; older ones are released with no lock held.
@Suite struct ForgottenErrorsTests {
    private struct Failure: Error { let farewell: Farewell }

    private enum FailingConverter: FluxAsyncActionConverter {
        struct Event: FluxEvent {}

        static func convert(
            event: Event, dependency: FluxStore<Counter>, send: @escaping @Sendable (Counter.Action) -> Void
        ) async throws { throw Failure(farewell: Farewell(to: dependency)) }
    }

    @Test func `An error that a task no longer keeps may use the library when it is released`() async {
        await #expect(processExitsWith: .success) {
            let target = FluxStore(initialState: Counter(), dispatcher: nil)
            let creator = FluxActionCreator<FailingConverter>(
                dependency: target, store: FluxStore(initialState: Counter(), dispatcher: nil),
                rules: [.retry(limit: 70)], onFailure: { _, _ in })
            let task = creator.fire(.init())
            let outcome = await task.outcome
            #expect(outcome.error is Failure)
            // All errors but the 64 that the task keeps, and the last one, with which it failed.
            withExtendedLifetime(task) { #expect(target.state.count == 6) }
        }
    }
}
