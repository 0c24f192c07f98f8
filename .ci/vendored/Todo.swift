// The usage that the project's front page shows, as a program that vendored the sources has it: no `import FluxCore`.

enum TodoConverter: FluxActionConverter {
    enum Event: FluxEvent { case add(String), removeAll }
    enum Action: FluxAction { case append(String), replace([String]) }

    static func convert(event: Event, dependency: Void, actionHandler: @escaping (Action) -> Void) {
        switch event {
        case .add(let title): actionHandler(.append(title))
        case .removeAll: actionHandler(.replace([]))
        }
    }
}

struct TodoState: FluxState {
    private(set) var titles: [String] = []

    mutating func handle(action: TodoConverter.Action) -> TodoState? {
        switch action {
        case .append(let title): titles.append(title)
        case .replace(let new):
            if new == titles { return nil }
            titles = new
        }
        return self
    }
}
