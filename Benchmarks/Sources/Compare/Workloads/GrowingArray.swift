import FluxCore
import Synchronization

extension Workload {
    static let growingArray = Workload(
        name: "w7",
        title: "appending to an array of so many Ints, no subscriber",
        cells: sizes.map { size in
            Cell("\(Name.flux), \(size)") { effort in
                let store = FluxStore(initialState: List(size: size), dispatcher: nil)
                return try effort.measure(100_000, total: { store.state.count }) { operations in
                    for number in 0..<operations { store.dispatch(action: .append(number)) }
                }
            }
        } + [
            Cell("\(Name.floor), 1000000") { effort in
                let list = Mutex(List(size: 1_000_000))
                return try effort.measure(100_000, total: { list.withLock { $0.count } }) { operations in
                    for number in 0..<operations { list.withLock { $0.apply(.append(number)) } }
                }
            }
        ],
        floor: "\(Name.flux), 100",
        bounds: sizes.dropFirst().map { .ratio("\(Name.flux), \($0)", atMost: 1.1) }
    )

    private static let sizes = [100, 10_000, 100_000, 1_000_000]
}

/// An array that is appended to, and cut back from time to time, so that its length stays about the same.
struct List: FluxState {
    enum Action: FluxAction { case append(Int) }

    private(set) var count = 0
    private var numbers: [Int]
    private let limit: Int

    init(size: Int) {
        numbers = Array(0..<size)
        limit = size + 100
        numbers.reserveCapacity(limit)
    }

    @inline(__always)
    mutating func apply(_ action: Action) {
        switch action {
        case .append(let number): numbers.append(number)
        }
        count += 1
        if numbers.count == limit { numbers.removeLast(100) }
    }

    mutating func handle(action: Action) -> List? {
        apply(action)
        return self
    }
}
