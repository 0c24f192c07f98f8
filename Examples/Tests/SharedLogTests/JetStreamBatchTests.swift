import FluxReplication
import Synchronization
import Testing

@testable import JetStreamLog

@Suite(.timeLimit(.minutes(3))) struct JetStreamBatchTests {
    @Test("Entries are unpacked as they were packed, at positions that end where the message's do")
    func packing() throws {
        let entries: [[UInt8]] = [[1, 2, 3], [], Array(repeating: 7, count: 70_000)]
        let read = try #require(JetStreamBatch.unpack(JetStreamBatch.pack(entries), at: 5))
        #expect(read.map(\.entry) == entries)
        // The last of the 1,024 positions that begin at 5,120.
        let positions: [UInt64] = [6_141, 6_142, 6_143]
        #expect(read.map(\.position) == positions)
        #expect(JetStreamBatch.end(of: 5) == read.last?.position)
        // Where a reader that has the first entry continues, and one that has all.
        #expect(JetStreamBatch.place(after: read[0].position) == 5)
        #expect(JetStreamBatch.place(after: read[2].position) == 6)
        #expect(JetStreamBatch.place(after: 0) == 1 && JetStreamBatch.end(of: 0) == 0)
    }

    @Test("A message that is cut off, empty or has too many entries is not unpacked")
    func damaged() {
        let whole = JetStreamBatch.pack([[1, 2, 3], [4]])
        for count in 0..<whole.count where count != 7 {
            #expect(JetStreamBatch.unpack(Array(whole.prefix(count)), at: 1) == nil, "\(count)")
        }
        #expect(JetStreamBatch.unpack(JetStreamBatch.pack(Array(repeating: [], count: 1_024)), at: 1)?.count == 1_024)
        #expect(JetStreamBatch.unpack(JetStreamBatch.pack(Array(repeating: [], count: 1_025)), at: 1) == nil)
    }

    @Test("Concurrent appends each get their own position, and no message exceeds the limit")
    func together() async {
        let sizes = Mutex<[Int]>([])
        let last = Mutex<UInt64>(0)
        let appender = JetStreamAppender(limit: 100) { bytes in
            sizes.withLock { $0.append(bytes.count) }
            await Task.yield()
            return .success(
                last.withLock {
                    $0 += 1; return $0
                })
        }
        let positions = await withTaskGroup { group in
            for number in 0..<500 { group.addTask { await appender.append(Array(repeating: 1, count: number % 90)) } }
            return await group.reduce(into: Set<UInt64>()) { positions, answer in
                if case .success(let position) = answer { positions.insert(position) }
            }
        }
        #expect(positions.count == 500)
        #expect(sizes.withLock { $0.allSatisfy { $0 <= 100 } })
    }

    @Test("Entries that a stream refuses together are sent one by one, and a large entry is sent alone")
    func refused() async {
        let last = Mutex<UInt64>(0)
        let appender = JetStreamAppender(limit: 100) { bytes in
            await Task.yield()
            if bytes.count > 40 && bytes.count <= 100 { return .failure(.refused("too large")) }
            return .success(
                last.withLock {
                    $0 += 1; return $0
                })
        }
        let positions = await withTaskGroup { group in
            for number in 0..<50 { group.addTask { await appender.append(Array(repeating: 1, count: number % 30)) } }
            group.addTask { await appender.append(Array(repeating: 1, count: 200)) }
            return await group.reduce(into: Set<UInt64>()) { positions, answer in
                if case .success(let position) = answer { positions.insert(position) }
            }
        }
        #expect(positions.count == 51)
    }

    @Test("An unanswered message delays no other, and a cancelled append returns")
    func overtaking() async {
        let calls = Mutex(0)
        let end = AsyncStream<Void>.makeStream()
        let appender = JetStreamAppender(limit: 100) { _ in
            let call = calls.withLock {
                $0 += 1; return $0
            }
            if call == 1 { for await _ in end.stream {} }
            return .success(UInt64(call))
        }
        let first = Task { await appender.append([1]) }
        while calls.withLock({ $0 }) == 0 { await Task.yield() }
        #expect(await appender.append([2]) == .success(JetStreamBatch.end(of: 2)))
        first.cancel()
        #expect(await first.value == .failure(.unavailable("the task was cancelled")))
        end.continuation.finish()
    }
}
