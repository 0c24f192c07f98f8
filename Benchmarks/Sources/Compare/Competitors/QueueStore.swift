import Dispatch
import Workbench

/// A serial queue around the state; it uses `sync`, so that a dispatch has been applied when it returns.
final class QueueStore: @unchecked Sendable {
    private let queue = DispatchQueue(label: "QueueStore")
    private var contents = Sample()
    private var observers: [@Sendable (Sample) -> Void] = []

    var state: Sample { queue.sync { contents } }

    func subscribe(_ observer: @escaping @Sendable (Sample) -> Void) {
        queue.sync { observers.append(observer) }
    }

    @inline(__always)
    func dispatch(_ action: Sample.Action) {
        queue.sync {
            contents.apply(action)
            for observer in observers { observer(contents) }
        }
    }
}
