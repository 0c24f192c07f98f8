import Explorer
import Flux

/// Changes that are held back while a store loads, and changes that are saved or logged.
enum Storage {
    static let scenarios = [
        Scenario("restored", "Actions dispatched while a store loads follow the loaded state, in order and once") {
            scene in
            let disk = Disk([7])
            let store = FluxStore(initialState: Log(), dispatcher: nil, persistence: disk)
            scene.thread("one") {
                store.add(1)
                store.add(2)
            }
            scene.thread("two") { store.add(3) }
            scene.finally {
                scene.expect(store.entries.first, is: 7, "the first")
                scene.expect([1, 2], in: store.entries, "one's")
                scene.expect(store.entries.count, is: 4, "applied")
                scene.expect(disk.entries, is: store.entries, "saved")
            }
        },
        Scenario("restored-and-watched", "A subscription that begins while a store loads gets each change once") {
            scene in
            let (disk, seen, token) = (Disk([7]), Noted<[Int]>([]), Noted<FluxSubscription?>(nil))
            let store = FluxStore(initialState: Log(), dispatcher: nil, persistence: disk)
            scene.thread("subscribes") {
                token.value = store.subscribe(startingWithCurrent: true) { seen.value.append($0.entries.count) }
            }
            scene.thread("dispatches") { store.add(1) }
            scene.finally {
                scene.expect(seen.value, is: Array((seen.value.first ?? 9)...2), "the lengths of the states")
                token.value = nil
            }
        },
        Scenario("saved-when-flushed", "A flush of a store returns once all earlier changes are saved") { scene in
            let disk = Disk(nil)
            let store = FluxStore(initialState: Log(), dispatcher: nil, persistence: disk)
            scene.thread("dispatches") { store.add(1) }
            scene.task("flushes") {
                store.add(2)
                await store.flush()
                scene.expect(disk.saved.withLock { $0 ?? [] }.contains(2), "2 is not saved")
            }
            scene.finally { scene.expect(disk.entries, is: store.entries, "saved") }
        },
        Scenario("failure-told", "failure() tells of a failed save, or returns once all earlier changes are saved") {
            scene in
            let disk = Disk(nil, failures: 1)
            let store = FluxStore(
                initialState: Log(), dispatcher: nil, persistence: disk, clock: ScenarioClock(), onFailure: { _ in })
            scene.thread("dispatches") { store.add(1) }
            scene.task("asks") {
                store.add(2)
                if await store.handle.failure() != nil { return }
                scene.expect(disk.saved.withLock { $0 ?? [] }.contains(2), "2 is not saved")
            }
            scene.finally { scene.expect(disk.entries, is: store.entries, "saved") }
        },
        Scenario("saved-when-it-goes", "A store released while it loads or saves still saves pending changes") {
            scene in
            let disk = Disk([7])
            let store = Noted<FluxStore<Log>?>(FluxStore(initialState: Log(), dispatcher: nil, persistence: disk))
            let isAdded = Noted(false)
            scene.thread("dispatches") {
                guard let store = store.value else { return }
                store.add(1)
                isAdded.value = true
            }
            scene.thread("lets go") { store.value = nil }
            scene.finally {
                scene.expect(disk.saved.withLock { $0 } ?? [7], is: isAdded.value ? [7, 1] : [7], "saved")
            }
        },
        Scenario("load-times-out", "A load that may time out gives one result, and loses no action") { scene in
            let (disk, told) = (Disk([7]), Noted(0))
            let store = FluxStore(
                initialState: Log(), dispatcher: nil, persistence: disk, loadTimeout: .seconds(1),
                clock: ScenarioClock(),
                onFailure: { _ in told.value += 1 })
            scene.thread("dispatches") { store.add(1) }
            scene.task("awaits") { _ = await store.ready }
            scene.finally {
                scene.expect([[1], [7, 1]].contains(store.entries), "applied \(store.entries)")
                scene.expect(told.value, is: store.entries.count == 1 ? 1 : 0, "reported failures")
            }
        },
        Scenario("durable", "A durable dispatch returns once its action is in the log, with others beside it") {
            scene in
            let log = Record()
            let store = FluxStore(initialState: Log(), dispatcher: nil, log: log)
            for (name, entry) in [("one", 1), ("two", 2)] {
                scene.task(name) {
                    do { try await store.dispatch(durably: .add(entry)) } catch { scene.expect(false, "\(error)") }
                    scene.expect(log.entries.withLock { $0 }.contains(entry), "\(entry) is not in the log")
                }
            }
            scene.finally { scene.expect(log.entries.withLock { $0 }, is: store.entries, "the log") }
        },
        Scenario("durable-cancelled", "A cancelled durable dispatch returns, and the log stays in order") { scene in
            let log = Record()
            let store = FluxStore(initialState: Log(), dispatcher: nil, log: log, capacity: 1)
            let first = scene.task("one") { _ = try? await store.dispatch(durably: .add(1)) }
            scene.task("two") { _ = try? await store.dispatch(durably: .add(2)) }
            scene.thread("cancels") { first() }
            scene.finally {
                scene.expect(store.entries.contains(2), "the other action was lost")
                scene.expect(log.entries.withLock { $0 }, is: store.entries, "the log")
            }
        },
        Scenario("saved-before-load", "A store that is opened at a place continues from what the one before had") {
            scene in
            let disk = PlacedDisk()
            scene.task("reopens") {
                var one: FluxStore<Log>? = try! await .restored(from: disk, initialState: Log(), dispatcher: nil)
                one!.add(1)
                one = nil
                let other = try! await FluxStore.restored(from: disk, initialState: Log(), dispatcher: nil)
                scene.expect(other.entries, is: [1], "what was loaded")
            }
        },
        Scenario("log-let-go", "A store that was flushed and released keeps no log, whoever keeps its handle") {
            scene in
            scene.task("releases") {
                var log: MemoryLog? = MemoryLog()
                weak let weakLog = log
                var store: FluxStore<Log>? = try! await .restored(from: log!, initialState: Log(), dispatcher: nil)
                log = nil
                _ = try! await store!.dispatch(durably: .add(1))
                await store!.flush()
                let handle = store!.handle
                store = nil
                for _ in 0..<3 { await yieldTask() }
                scene.expect(weakLog == nil, "the log is still there")
                _ = handle.state
            }
        },
        Scenario("durable-order", "A log whose append failed gets the actions in the order applied") { scene in
            let log = Stumbling()
            scene.task("opens") {
                let store = try! await FluxStore.restored(
                    from: log, initialState: Log(), dispatcher: nil, clock: ScenarioClock(), onFailure: { _ in })
                let done = FluxLatch()
                scene.task("other") {
                    _ = try? await store.dispatch(durably: .add(1))
                    done.open()
                }
                _ = try? await store.dispatch(durably: .add(2))
                await done.wait()
                scene.expect(log.all, is: store.entries, "the log")
            }
        },
    ]
}

/// A place where a state is saved.
final class Disk: FluxPersistence {
    struct Failure: Error {}

    let saved: FluxLock<[Int]?>
    /// How many of the next saves fail.
    private let failures: Noted<Int>

    init(_ entries: [Int]?, failures: Int = 0) {
        saved = FluxLock(entries)
        self.failures = Noted(failures)
    }

    /// What is saved; empty if nothing is.
    var entries: [Int] { saved.withLock { $0 } ?? [] }

    func load() async throws -> Log? { saved.withLock { $0 }.map { Log(entries: $0) } }

    func save(_ state: Log) async throws {
        await yieldTask()
        if failures.value > 0 {
            failures.value -= 1
            throw Failure()
        }
        saved.withLock { $0 = state.entries }
    }
}

/// A log, of which only what it leads to is kept.
final class Record: FluxLog {
    let entries = FluxLock<[Int]>([])

    func load() async throws -> FluxLogContents<Log> { FluxLogContents() }

    func append(_ entries: [FluxLogEntry<Log.Action>]) async throws {
        await yieldTask()
        self.entries.withLock { all in
            for case .add(let entry) in entries.map(\.action) { all.append(entry) }
        }
    }

    func compact(_ snapshot: FluxSnapshot<Log>) async throws {
        await yieldTask()
        entries.withLock { $0 = snapshot.state.entries }
    }
}

/// What is saved at a place, slowly.
private final class PlacedDisk: FluxPersistence, @unchecked Sendable {
    var saved: Log?
    var place: String? { "disk" }
    func load() async throws -> Log? { saved }
    func save(_ state: Log) async throws {
        await yieldTask()
        saved = state
    }
}

private final class MemoryLog: FluxLog, @unchecked Sendable {
    func load() async throws -> FluxLogContents<Log> { FluxLogContents() }
    func append(_ entries: [FluxLogEntry<Log.Action>]) async throws {}
    func compact(_ snapshot: FluxSnapshot<Log>) async throws {}
}

/// A log whose first append fails.
private final class Stumbling: FluxLog, @unchecked Sendable {
    struct Failure: Error {}
    var all: [Int] = []
    var fails = true
    func load() async throws -> FluxLogContents<Log> {
        FluxLogContents(snapshot: FluxSnapshot(state: Log(), number: 0, revision: 1))
    }
    func append(_ entries: [FluxLogEntry<Log.Action>]) async throws {
        if fails {
            fails = false
            for _ in 0..<3 { await yieldTask() }
            throw Failure()
        }
        for case .add(let entry) in entries.map(\.action) { all.append(entry) }
    }
    func compact(_ snapshot: FluxSnapshot<Log>) async throws { all = snapshot.state.entries }
}
