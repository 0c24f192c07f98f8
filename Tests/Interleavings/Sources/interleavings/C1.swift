import Explorer
import Flux

/// One action at a time, each exactly once.
enum C1 {
    static let scenarios = [
        Scenario("c1-dispatches", "Two threads dispatch to a store, and no update is lost") { scene in
            let store = FluxStore(initialState: Log(scene: scene), dispatcher: nil)
            scene.thread("one") { store.dispatch(action: .add(1)) }
            scene.thread("two") { store.dispatch(action: .add(2)) }
            scene.finally {
                scene.expect(store.state.entries.sorted(), is: [1, 2], "applied")
                scene.expect(store.revision, is: 2, "the revision")
            }
        }
    ]
}
