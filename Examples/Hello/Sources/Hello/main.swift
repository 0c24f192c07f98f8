import FluxCore

// A list of what to buy. Each word that the program is given is bought, and crossed out again if it begins with "-":
//
//     swift run --package-path Examples/Hello Hello milk eggs -milk

/// What happens, and what is to change for it.
enum Shopping: FluxActionConverter {
    enum Event: FluxEvent { case said(String) }
    enum Action: FluxAction { case add(String), remove(String) }

    static func convert(event: Event, dependency: Void, actionHandler: @escaping @Sendable (Action) -> Void) {
        switch event {
        case .said(let word) where word.first == "-": actionHandler(.remove(String(word.dropFirst())))
        case .said(let word): actionHandler(.add(word))
        }
    }
}

/// What is there, and how an action changes it; nil says that it changed nothing, and then nobody is told.
struct List: FluxState {
    private(set) var items: [String] = []

    mutating func handle(action: Shopping.Action) -> List? {
        switch action {
        case .add(let item): items.append(item)
        case .remove(let item):
            guard let place = items.firstIndex(of: item) else { return nil }
            items.remove(at: place)
        }
        return self
    }
}

let store = FluxStore(initialState: List())
let subscription = store.subscribe { list in print("\(list.items.count): \(list.items.joined(separator: ", "))") }
let creator = FluxActionCreator<Shopping>(store: store)

let words = CommandLine.arguments.dropFirst()
creator.fire((words.isEmpty ? ["milk", "eggs", "-milk", "bread"] : words).map { .said($0) })

await creator.flush()  // every event fired so far has been converted, and its actions applied
await store.flush()  // every change applied so far has been handed to every subscription
subscription.unsubscribe()
