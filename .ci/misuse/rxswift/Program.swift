// Runs the recipe: it gives the states, and completes when the store goes. The script adds the imports and the recipe.

struct Tally: FluxState {
    struct Add: FluxAction {}

    var count = 0

    mutating func handle(action: Add) -> Tally? {
        count += 1
        return self
    }
}

func report(_ line: String) {
    print(line)
    fflush(nil)
}

let isOver = DispatchSemaphore(value: 0)
var store: FluxStore<Tally>? = FluxStore(initialState: Tally(), dispatcher: nil)
let running = store?.observable.subscribe(
    onNext: { report("\($0.count)") },
    onCompleted: {
        report("completed")
        isOver.signal()
    })
let stopped = store?.observable.subscribe(onNext: { _ in }, onCompleted: { report("completed after its end") })
stopped?.dispose()
store?.dispatch(action: .init())
store = nil
// A limit on how long a failure takes to be reported, and nothing else.
if isOver.wait(timeout: .now() + 10) != .success { report("never completed") }
running?.dispose()
