// Top-level variables of a program are visible in all files of its module; these have names that FluxCore uses too.
let core = "core"
let queue = 1
let state = State.ready
let batch = Batch()
let lock = Lock()
let threads = 8
let id = "id"
let outlet = Outlet()
let machine = Machine()

// The usage that the issue tracker and the front page of the project show.
let store = FluxStore(initialState: TodoState())
let subscription = store.subscribe { state in print(state.titles.count) }
let creator = FluxActionCreator<TodoConverter>()
creator.fire(.add("milk"))
creator.fire([.add("eggs"), .removeAll])
await creator.flush()
await store.flush()
subscription.unsubscribe()

// Two stores on a dispatcher of their own, one of them watched.
let dispatcher = FluxDispatcher()
let watched = FluxStore(initialState: TodoState(), dispatcher: dispatcher)
let unwatched = FluxStore(initialState: TodoState(), dispatcher: dispatcher)
let watch = watched.subscribe(startingWithCurrent: true) { state in
    print(state.titles.isEmpty ? "nothing" : state.titles.joined(separator: ", "))
}
await watched.flush()
let announced = dispatcher.dispatch(action: TodoConverter.Action.append("bread"))
await watched.flush()
print("announced by \(announced)")
print("announced by \(dispatcher.dispatch(action: TodoConverter.Action.replace(["bread"])))")

let toAll = FluxActionCreator<TodoConverter>(dispatcher: dispatcher)
let toOne = FluxActionCreator<TodoConverter>(store: unwatched)
toAll.fire(.add("tea"))
await toAll.flush()
await watched.flush()
toOne.fire(.removeAll)
await toOne.flush()
print("revisions: \(watched.revision), \(unwatched.revision)")
watch.unsubscribe()

// A store that goes on from a file.
let file = FluxFile<TodoState>(
    path: CommandLine.arguments[0] + ".state",
    encode: { Array($0.titles.joined(separator: "\n").utf8) },
    decode: { bytes in
        var state = TodoState()
        return state.handle(action: .replace([String(decoding: bytes, as: UTF8.self)])) ?? state
    })
let saved = FluxStore(initialState: TodoState(), dispatcher: nil, persistence: file, loadTimeout: .seconds(60))
saved.dispatch(action: .replace(["saved"]))
_ = await saved.ready
await saved.flush()
let restored = try await FluxStore.restored(from: file, initialState: TodoState(), dispatcher: nil)
print("restored: \(restored.state.titles.joined())")

let own: [Any] = [Mutex(value: 1), Atomic(value: 2), Task(title: "own"), Event(name: "own"), Result.fine, Phase.first]
print("own types: \(own.count), \(swap("ko"))")
