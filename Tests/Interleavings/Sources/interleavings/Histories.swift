import Explorer
import Flux

/// What a history has recorded leads to the state of its store.
enum Histories {
    static let scenarios = [
        Scenario("undone", "An undo while actions flow goes back by one step, and the history stays complete") {
            scene in
            let store = makeLog()
            let history = FluxHistory(store, limit: 10)
            store.add(1)
            scene.thread("dispatches") { store.add(2) }
            scene.thread("undoes") { history.undo() }
            scene.finally {
                scene.expect([[1], [2]].contains(store.entries), "applied \(store.entries)")
                scene.expect(history.entries.count, is: store.entries == [1] ? 2 : 1, "entries of the history")
            }
        },
        Scenario("undone-by-two", "Two histories of a store record each other's moves") { scene in
            let store = makeLog()
            let histories = [FluxHistory(store, limit: 10), FluxHistory(store, limit: 10)]
            store.add(1)
            store.add(2)
            scene.thread("one") {
                histories[0].undo()
                histories[0].redo()
            }
            scene.thread("other") { histories[1].undo() }
            scene.finally { for history in histories { history.expect(store, scene) } }
        },
        Scenario("recorded", "A history that begins while a store loads, and actions flow, leads to the store's state")
        { scene in
            let store = FluxStore(initialState: Log(), dispatcher: nil, persistence: Disk([7]))
            let history = Noted<FluxHistory<Log>?>(nil)
            scene.thread("dispatches") {
                store.add(1)
                store.add(2)
            }
            scene.thread("records") {
                history.value = FluxHistory(store, limit: 10)
                history.value?.undo()
                history.value?.redo()
            }
            scene.finally {
                history.value?.expect(store, scene)
                scene.expect(history.value?.start.entries.first, is: 7, "the first at the start")
                history.value = nil
            }
        },
    ]
}

extension FluxHistory<Log> {
    fileprivate func expect(_ store: FluxStore<Log>, _ scene: Scene) {
        scene.expect((replay().last ?? start).entries, is: store.entries, "replayed")
        let kept = [start.entries] + entries.map(\.state.entries)
        scene.expect(kept[position], is: store.entries, "the state at the position")
    }
}
