// A program into whose target the sources of FluxCore are copied has types of its own, and they take precedence over
// every type of the same name that comes from a module. These are the names that the sources would trip over first.

struct Mutex<Value> {
    var value: Value
}

struct Atomic<Value> {
    var value: Value
}

final class Lock {}

final class Store {
    var state = State.ready
}

enum State {
    case ready
}

enum Action {
    case go
}

struct Event {
    var name: String
}

struct Task {
    var title: String
}

enum Result {
    case fine
}

struct Subscriber {}

struct Subscription {}

struct Dispatcher {}

struct Converter {}

struct Mailbox {}

struct Outlet {}

struct Batch {}

struct Joiner {}

struct Member {}

struct Waiter {}

struct Element {}

struct Entry {}

struct Slot {}

struct Machine {}

struct Latch {}

struct Gate {}

struct Ledger {}

struct Route {}

struct Middleware {}

struct Thread {}

struct Queue {}

struct Ordering {}

struct Duration {}

struct Clock {}

struct ContinuousClock {}

struct CancellationError {}

struct Error {}

struct Log {}

struct File {}

struct Snapshot {}

struct Persistence {}

func write(_ text: String) {}

func open(_ file: File) {}

func read(_ file: File) -> String { "" }

func close(_ file: File) {}

func rename(_ file: File) {}

enum Phase {
    case first
}

protocol Cancellable {}

extension Optional {
    /// What many programs wrote before the standard library had it.
    mutating func take() -> Wrapped? {
        defer { self = nil }
        return self
    }
}

func swap(_ text: String) -> String {
    String(text.reversed())
}

func min(_ text: String) -> Int {
    text.count
}

final class Observable<Value> {}

struct Set {
    var repetitions: Int
}

struct Collection {}

struct Sequence {}

struct Hasher {}

nonisolated func fatalError(
    _ message: @autoclosure () -> String = "", file: StaticString = #file, line: UInt = #line
) -> Never {
    Swift.fatalError(message(), file: file, line: line)
}
