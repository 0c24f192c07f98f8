import Explorer
import Flux

/// Commands on a store with storage: what they change at first is saved, and so is taking it back.
enum Commands {
    static let scenarios = [
        Scenario("command-restored", "A command begins after the load, and a failed one leaves nothing that is saved") {
            scene in
            let disk = Disk([7])
            let store = FluxStore(initialState: Log(), dispatcher: nil, persistence: disk)
            scene.thread("runs") { store.run(Adding(entry: 1, isFailing: true, scene: scene)) }
            scene.thread("dispatches") { store.add(2) }
            scene.finally {
                scene.expect(store.entries, is: [7, 2], "applied")
                scene.expect(disk.entries, is: [7, 2], "saved")
            }
        },
        Scenario("command-logged", "A log leads to the state of its store, with commands and actions at the same time")
        { scene in
            let log = Record()
            let store = FluxStore(initialState: Log(), dispatcher: nil, log: log)
            scene.thread("runs") { store.run(Adding(entry: 1, isFailing: true, scene: scene)) }
            scene.task("dispatches") {
                do { try await store.dispatch(durably: .add(2)) } catch { scene.expect(false, "\(error)") }
                scene.expect(log.entries.withLock { $0 }.contains(2), "2 is not in the log")
            }
            scene.finally {
                scene.expect(store.entries, is: [2], "applied")
                scene.expect(log.entries.withLock { $0 }, is: [2], "the log")
            }
        },
    ]
}

/// Adds an entry before its work begins, and takes it back if the work fails.
struct Adding: FluxCommand {
    struct Failure: Error {}

    let entry: Int
    let isFailing: Bool
    let scene: Scene

    func begin(state: inout Log) { state.entries.append(entry) }

    func execute(state: Log, dependency: Void) async throws {
        scene.expect(state.entries.contains(entry), "the work of \(entry) began before its change: \(state.entries)")
        await yieldTask()
        if isFailing { throw Failure() }
    }

    func reduce(state: inout Log, error: any Error) { state.entries.removeAll { $0 == entry } }
}
