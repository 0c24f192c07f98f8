import FluxCore
import FluxPersistence
import TestSupport
import Testing

/// What `failure()` returns for a store whose disk fails intermittently.
@Suite struct FailureRacesTests {
    /// Saves fail at random: if every second one failed, a thread could meet only failing ones each time it checks.
    private final class Flickering: FluxPersistence {
        let saved = Locked(0)

        func load() async throws -> Counter? { nil }
        func save(_ state: Counter) async throws {
            for _ in 0..<200 { _ = Task.isCancelled }
            if Bool.random() { throw StorageScript.Refusal() }
            saved.withLock { $0 = state.count }
        }
    }

    @Test(.stress) func `Stress: failure() returns nil only once everything applied before is saved`() async throws {
        let persistence = Flickering()
        let store = try await FluxStore.restored(
            from: persistence, initialState: Counter(), dispatcher: nil, backoff: .none, onFailure: { _ in })
        var numbers = SystemRandomNumberGenerator()
        var answers = 0
        while answers < 2_000 {
            store.dispatch(action: .add(1))
            for _ in 0..<Int.random(in: 0..<400, using: &numbers) { _ = Task.isCancelled }
            store.dispatch(action: .add(1))
            let applied = store.state.count
            if await store.handle.failure() != nil { continue }
            answers += 1
            let saved = persistence.saved.current
            try #require(saved >= applied)
        }
    }
}
