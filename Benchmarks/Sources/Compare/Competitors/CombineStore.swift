import OpenCombine
import Workbench

/// A subject that holds the state.
///
/// For one thread only: reading, changing and sending are three separate steps.
final class CombineStore {
    private let subject = CurrentValueSubject<Sample, Never>(Sample())
    private var cancellables: Set<AnyCancellable> = []

    var state: Sample { subject.value }

    /// Subscribes starting with the current state, unlike the others: `dropFirst` would have a cost at each change.
    func subscribe(_ observer: @escaping (Sample) -> Void) {
        subject.sink(receiveValue: observer).store(in: &cancellables)
    }

    @inline(__always)
    func dispatch(_ action: Sample.Action) {
        var state = subject.value
        state.apply(action)
        subject.send(state)
    }
}
