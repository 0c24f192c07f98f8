// What the calls in `wrong` and `right` are made with. The script adds the imports.

struct Shop: FluxState {
    enum Action: FluxAction { case add(Int) }

    var n = 0
    var cart: [String] = []
    var name = ""

    mutating func handle(action: Action) -> Shop? { self }
}

/// An action that is no state's own.
struct LogOut: FluxAction {}

/// A converter that needs something.
enum ShopConverter: FluxActionConverter {
    enum Event: FluxEvent { case add(Int) }

    static func convert(
        event: Event, dependency: String, actionHandler: @escaping @Sendable (Shop.Action) -> Void
    ) {}
}

/// A command that needs something.
struct Restock: FluxCommand {
    func execute(state: Shop, dependency: String) async throws -> Int { 1 }
    func reduce(state: inout Shop, output: Int) {}
}

/// What may not be captured.
final class Till {
    var amount = 0
}
