import FluxCore
import FluxPersistence
import TestSupport
import Testing

/// An action that the log never accepts blocks no caller forever, because a snapshot covers it too.
@Suite struct LogThatRefusesTests {
    /// Forwards to a log, but refuses an append with an action that it cannot encode.
    final class Picky: FluxLog {
        struct CannotEncode: Error {}

        let log = MemoryLog<Counter>()

        func load() async throws -> FluxLogContents<Counter> { try await log.load() }

        func append(_ entries: [FluxLogEntry<Counter.Action>]) async throws {
            for entry in entries { if case .add(666) = entry.action { throw CannotEncode() } }
            try await log.append(entries)
        }

        func compact(_ snapshot: FluxSnapshot<Counter>) async throws { try await log.compact(snapshot) }
    }

    @Test(.timeLimit(.minutes(5))) func `A snapshot replaces an append that has failed twice`() async throws {
        let picky = Picky()
        let (clock, failures) = (TestClock(), Recorder<FluxPersistenceFailure>())
        let store = FluxStore(
            initialState: Counter(), dispatcher: nil, log: picky, backoff: .constant(.seconds(1)), clock: clock,
            onFailure: { failures.record($0) })
        try await store.dispatch(durably: .add(1))
        let refused = Task { try await store.dispatch(durably: .add(666)) }
        await clock.sleepers(1)
        let later = Task { try await store.dispatch(durably: .add(2)) }
        while store.revision < 3 { await Task.yield() }
        clock.advance(by: .seconds(1))
        await failures.count(2)
        await clock.sleepers(1)
        clock.advance(by: .seconds(1))
        #expect(try await [refused.value, later.value] == [2, 3])
        #expect(failures.values.map(\.operation) == [.append, .append])
        #expect(failures.values.map(\.attempt) == [1, 2])
        #expect(picky.log.contents.snapshot?.number == 3)
        try await store.dispatch(durably: .add(3))
        #expect(picky.log.numbers.values == [4], "from there on it appends again")
        let recovered = try await FluxStore.restored(from: picky, initialState: Counter(), dispatcher: nil)
        #expect(recovered.state.count == 672)
        #expect(recovered.revision == 4)
    }

    @Test(.timeLimit(.minutes(1)))
    func `An acknowledged revision survives a restart, even if the first snapshot failed`() async throws {
        let log = MemoryLog<Counter>()
        do {
            let store = FluxStore(initialState: Counter(), dispatcher: nil, log: log)
            // Not announced, so the log leads to no revision.
            try await store.dispatch(durably: .addSilently(1))
        }
        do {
            let store = try await FluxStore.restored(
                from: log, initialState: Counter(), dispatcher: nil, backoff: .none, onFailure: { _ in })
            log.script.refuse(1)
            #expect(try await store.dispatch(durably: .add(1)) == 2)
        }
        let store = try await FluxStore.restored(from: log, initialState: Counter(), dispatcher: nil)
        #expect(store.state.count == 2 && store.revision == 2)
    }

    /// Waits, and then refuses permanently.
    final class LateRefusal: FluxLog {
        struct Moved: FluxPermanentError {}
        let (begins, ends) = (Gate(), Gate())

        func load() async throws -> FluxLogContents<Post> {
            FluxLogContents(snapshot: FluxSnapshot(state: Post(), number: 0, revision: 1))
        }
        func append(_ entries: [FluxLogEntry<Post.Action>]) async throws {
            begins.open()
            await ends.opened()
            throw Moved()
        }
        func compact(_ snapshot: FluxSnapshot<Post>) async throws {}
    }

    @Test(.timeLimit(.minutes(1))) func `Actions that will never be written are released with no lock held`() async {
        let log = LateRefusal()
        let store = FluxStore(initialState: Post(), dispatcher: nil, log: log, onFailure: { _ in })
        _ = await store.ready
        store.dispatch(action: .count)
        await log.begins.opened()
        store.dispatch(action: .send(Letter(to: store)))
        log.ends.open()
        await store.flush()
        while store.state.count < 3 { await Task.yield() }
    }

    @Test func `A durable dispatch in a cancelled task applies nothing, even if there is room`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil, log: MemoryLog<Counter>())
        _ = await store.ready
        let dispatch = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            do throws(FluxDurabilityError) { try await store.dispatch(durably: .add(1)) } catch {
                if case .cancelled = error { return true }
            }
            return false
        }
        #expect(await dispatch.value)
        #expect(store.state.count == 0)
    }
}
