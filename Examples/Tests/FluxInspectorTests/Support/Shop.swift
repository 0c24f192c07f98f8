import FluxCore

/// The state that the tests inspect.
struct Shop: FluxState, Equatable {
    enum Action: FluxAction {
        case add(String, count: Int)
        case signIn(name: String, password: String)
        case look
        /// Changes the state without announcing it.
        case whisper(String)
    }

    struct Customer: Equatable {
        var name: String
        var password: String
    }

    var items: [String: Int] = [:]
    var customers: [Customer] = []
    var whispers: [String] = []

    mutating func handle(action: Action) -> Shop? {
        switch action {
        case .add(let item, let count): items[item, default: 0] += count
        case .signIn(let name, let password): customers.append(Customer(name: name, password: password))
        case .look: return nil
        case .whisper(let text):
            whispers.append(text)
            return nil
        }
        return self
    }
}

struct Order: FluxEvent {
    var item: String
    var count: Int
}

struct SoldOut: Error {
    var item: String
}

/// Orders the items one by one; throws if there are none.
enum OrderConverter: FluxAsyncActionConverter {
    typealias Event = Order
    typealias Action = Shop.Action

    static func convert(
        event: Order, dependency: Void, send: @escaping @Sendable (Action) -> Void
    ) async throws {
        if event.count == 0 { throw SoldOut(item: event.item) }
        for _ in 0..<event.count { send(.add(event.item, count: 1)) }
    }
}

/// An object for a state, whose release a test can detect.
final class Token: Sendable {}

/// A state whose release a test can detect.
struct Bag: FluxState {
    enum Action: FluxAction { case put(Token) }

    var token = Token()

    mutating func handle(action: Action) -> Bag? {
        if case .put(let token) = action { self.token = token }
        return self
    }
}
