import FluxCore
import Workbench

extension Workload {
    static let otherTypes = Workload(
        name: "w5",
        title: "dispatch that concerns one store, among stores of 128 other action types",
        cells: [0, 1_000, 100_000].map { others in
            Cell("\(others) others") { effort in
                let dispatcher = FluxDispatcher()
                let bystanders = Bystander<Zero>.crowd(others, types: 128, on: dispatcher)
                defer { withExtendedLifetime(bystanders) {} }
                let store = FluxStore(initialState: Sample(), dispatcher: dispatcher)
                return try effort.measure(100_000, total: { store.state.count }) { operations in
                    for _ in 0..<operations { dispatcher.dispatch(action: Sample.Action.add(1)) }
                }
            }
        },
        floor: "0 others",
        bounds: [.ratio("1000 others", atMost: 1.1), .ratio("100000 others", atMost: 1.1)]
    )
}

private protocol Tag: Sendable {}
private enum Zero: Tag {}
private enum Even<Half: Tag>: Tag {}
private enum Odd<Half: Tag>: Tag {}

/// A state with one of any number of action types, which are formed from binary numbers at run time.
private struct Bystander<Kind: Tag>: FluxState {
    struct Action: FluxAction {}

    func handle(action: Action) -> Bystander? { nil }

    static func crowd(_ count: Int, types: Int, on dispatcher: FluxDispatcher) -> [AnyObject] {
        if types > 1 {
            return Bystander<Even<Kind>>.crowd(count / 2, types: types / 2, on: dispatcher)
                + Bystander<Odd<Kind>>.crowd(count - count / 2, types: types / 2, on: dispatcher)
        }
        return (0..<count).map { _ in FluxStore(initialState: Bystander(), dispatcher: dispatcher) }
    }
}
