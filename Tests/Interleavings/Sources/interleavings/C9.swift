import Explorer
import Flux

/// A cancel never waits, and no further action passes; the outcome is known after the last.
enum C9 {
    static let scenarios = [
        Scenario("c9-cancel-while-sending", "After a cancel nothing passes, and the outcome comes after what had passed") {
            scene in
            let store = scene.log()
            let creator = FluxActionCreator<Sending>(store: store)
            let task = creator.fire(.add([1, 2]))
            scene.thread("cancels") { task.cancel() }
            scene.task("awaits") {
                let outcome = await task.outcome
                let count = store.state.entries.count
                if case .completed = outcome { scene.expect(count, is: 2, "applied at the end") }
                scene.point()
                scene.expect(store.state.entries.count, is: count, "applied after the end")
            }
            scene.finally { scene.expect(creator.inFlight, is: 0, "in flight") }
        }
    ]
}
