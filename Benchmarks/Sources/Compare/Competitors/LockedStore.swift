import Synchronization
import Workbench

/// The floor: what one would write by hand, with the closures called in line while the lock is held.
final class LockedStore: Sendable {
    private struct Contents {
        var state: Sample
        var observers: [@Sendable (Sample) -> Void] = []
    }

    private let contents: Mutex<Contents>

    init(_ state: Sample = Sample()) {
        contents = Mutex(Contents(state: state))
    }

    var state: Sample { contents.withLock { $0.state } }

    func subscribe(_ observer: @escaping @Sendable (Sample) -> Void) {
        contents.withLock { $0.observers.append(observer) }
    }

    @inline(__always)
    func dispatch(_ action: Sample.Action) {
        contents.withLock { contents in
            contents.state.apply(action)
            for observer in contents.observers { observer(contents.state) }
        }
    }
}
