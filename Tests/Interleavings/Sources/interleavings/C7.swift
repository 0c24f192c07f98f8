import Explorer
import Flux

/// `unsubscribe()` never waits, and no further call is decided on; `finish()` waits for the last.
enum C7 {
    static let scenarios = [
        Scenario("c7-finish", "Once finish() has returned, no call of the handler runs or comes") { scene in
            let (store, calls, isOver) = (scene.log(), Noted(0), Noted(false))
            let token = store.subscribe { _ in
                scene.expect(!isOver.value, "a call begins after finish()")
                scene.point()
                scene.expect(!isOver.value, "a call runs after finish()")
                calls.value += 1
            }
            scene.thread("dispatches") {
                store.dispatch(action: .add(1))
                store.dispatch(action: .add(2))
            }
            scene.task("finishes") {
                await token.finish()
                isOver.value = true
            }
            scene.finally { scene.expect(calls.value <= 2, "called \(calls.value) times") }
        }
    ]
}
