import FluxCore
import FluxPersistence
import TestSupport
import Testing

/// What `failure()` says of a store whose disk comes and goes.
@Suite struct FailureRacesTests {
    /// Every other save fails.
    private final class Flickering: FluxPersistence {
        let disk = Locked((saves: 0, count: 0))

        func load() async throws -> Counter? { nil }
        func save(_ state: Counter) async throws {
            let isDone = disk.withLock { disk in
                disk.saves += 1
                return disk.saves.isMultiple(of: 2)
            }
            for _ in 0..<200 { _ = Task.isCancelled }
            if !isDone { throw StorageScript.Refusal() }
            disk.withLock { $0.count = state.count }
        }
    }

    @Test(.stress) func `Stress: none is reported only once all that was applied before is saved`() async throws {
        let persistence = Flickering()
        let store = try await FluxStore.restored(
            from: persistence, initialState: Counter(), dispatcher: nil, backoff: .none, onFailure: { _ in })
        var numbers = SystemRandomNumberGenerator()
        var (answers, calls) = (0, 0)
        while answers < 2_000 && calls < 200_000 {
            store.dispatch(action: .add(1))
            for _ in 0..<Int.random(in: 0..<400, using: &numbers) { _ = Task.isCancelled }
            store.dispatch(action: .add(1))
            let applied = store.state.count
            calls += 1
            if await store.handle.failure() != nil { continue }
            answers += 1
            let saved = persistence.disk.current.count
            try #require(saved >= applied)
        }
        #expect(answers > 0)
    }
}
