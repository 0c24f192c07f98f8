import FluxCore
import FluxPersistence
import TestSupport
import Testing

/// A cancelled wait leaves no memory behind, however long the awaited work takes; `FluxCoreTests` has the other waits.
@Suite struct CancelledWaitsOfAStoreThatLastsTests {
    static func bytesKept(by wait: @escaping @Sendable () async -> Void) async -> Int {
        await Heap.bytesKept { count in
            for _ in 0..<count / 100 {
                await withTaskGroup(of: Void.self) { group in
                    for _ in 0..<100 { group.addTask { await wait() } }
                    await Task.yield()
                    group.cancelAll()
                }
            }
        }
    }

    static let limit = 8

    @Test func `A cancelled wait for the end of a load keeps no memory`() async {
        await #expect(processExitsWith: .success) {
            let (persistence, gate) = (MemoryPersistence<Counter>(), Gate())
            persistence.script.block(until: gate)
            let store = FluxStore(initialState: Counter(), dispatcher: nil, persistence: persistence)
            let kept = await CancelledWaitsOfAStoreThatLastsTests.bytesKept {
                _ = await store.ready
                await store.flush()
            }
            #expect(kept < CancelledWaitsOfAStoreThatLastsTests.limit, "\(kept) bytes for each")
            gate.open()
            expect(await store.ready, is: "empty")
        }
    }

    @Test func `A cancelled wait for a save or an append keeps no memory`() async {
        await #expect(processExitsWith: .success) {
            let (persistence, log, gate) = (MemoryPersistence<Counter>(), MemoryLog<Counter>(), Gate())
            let saving = FluxStore(initialState: Counter(), dispatcher: nil, persistence: persistence)
            let logging = FluxStore(initialState: Counter(), dispatcher: nil, log: log, capacity: 1)
            _ = await (saving.ready, logging.ready)
            persistence.script.block(until: gate)
            log.script.block(until: gate)
            saving.dispatch(action: .add(1))
            logging.dispatch(action: .add(1))
            let kept = await CancelledWaitsOfAStoreThatLastsTests.bytesKept {
                await saving.flush()
                await logging.flush()
                _ = try? await logging.dispatch(durably: .add(1))
            }
            #expect(kept < CancelledWaitsOfAStoreThatLastsTests.limit, "\(kept) bytes for each")
            gate.open()
            await saving.flush()
            await logging.flush()
            #expect(persistence.current?.count == 1)
        }
    }
}
