import FluxCore
import TestSupport
import Testing

@testable import FluxPersistence

/// The first answer to a load counts; what the load has read counts only if that answer is the load's own.
@Suite struct FluxLoadPromiseTests {
    struct Broken: Error {}

    @Test func `Only the first answer counts`() async throws {
        let answer = FluxLoadPromise<Int>()
        answer.give(.success(1))
        #expect(try answer.give(.failure(Broken())).get() == 1)
        #expect(try answer.give(.success(2)).get() == 1)
        #expect(try await answer.wait() == 1)
        #expect(!answer.flag.isVoid)
        let late = FluxLoadPromise<Int>()
        late.give(.failure(Broken()))
        #expect(late.flag.isVoid)
        late.give(.success(1))
        await #expect(throws: Broken.self) { try await late.wait() }
    }

    @Test func `A cancelled wait answers with a CancellationError unless there is already an answer`() async throws {
        for isAnswered in [false, true] {
            let answer = FluxLoadPromise<Int>()
            if isAnswered { answer.give(.success(1)) }
            let waiting = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                return try await answer.wait()
            }
            if isAnswered {
                #expect(try await waiting.value == 1)
            } else {
                await #expect(throws: CancellationError.self) { try await waiting.value }
            }
            #expect(answer.flag.isVoid != isAnswered)
        }
    }

    @Test func `A voided load voids its parts, and a voided part does not void the load`() {
        let whole = FluxLoadPromise<Int>()
        let part = FluxLoadPromise<Int>(partOf: whole.flag)
        let other = FluxLoadPromise<Int>(partOf: whole.flag)
        part.give(.failure(Broken()))
        #expect(!whole.flag.isVoid && !other.flag.isVoid)
        whole.give(.failure(Broken()))
        #expect(other.flag.isVoid)
    }

    /// Whichever answer wins, every caller sees it, and what was read is void exactly if that answer is not the load's.
    @Test func `Simultaneous answers give every caller the same result`() async {
        for _ in 0..<200 {
            let answer = FluxLoadPromise<Int>()
            let seen = Recorder<Int>()
            await onThreads(3) { index in
                let counts = index == 0 ? answer.give(.failure(Broken())) : answer.give(.success(index))
                seen.record((try? counts.get()) ?? 0)
            }
            #expect(Set(seen.values).count == 1)
            #expect(answer.flag.isVoid == (seen.values[0] == 0))
        }
    }
}
