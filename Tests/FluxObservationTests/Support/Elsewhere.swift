import Dispatch
import TestSupport

/// Runs a closure on another thread, and waits for it.
func elsewhere(_ body: @escaping @Sendable () -> Void) {
    let isDone = Gate()
    DispatchQueue.global().async {
        body()
        isDone.open()
    }
    isDone.wait()
}
