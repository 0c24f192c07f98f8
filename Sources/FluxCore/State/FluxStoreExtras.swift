import Dispatch
import Synchronization

/// What a store needs only once it does more than hold a state: one word in its core for all of it.
nonisolated final class FluxStoreExtras: Sendable {
    /// The store's own serial queue.
    ///
    /// It targets a global queue rather than the overcommitting default, so that thousands of busy stores share a few
    /// threads.
    let queue = DispatchQueue(label: "FluxStore", autoreleaseFrequency: .workItem, target: .global())
    private let lazyRelay = Synchronization.AtomicLazyReference<DispatchQueue>()

    /// Those who are told of the actions: the store's own and its dispatcher's.
    let taps = FluxLock((own: FluxActionTap?.none, all: ContiguousArray<FluxActionTap>()))

    /// The queue that iterators are told on, made on first use: a slow handler on the other does not delay them.
    var relay: DispatchQueue {
        lazyRelay.load()
            ?? lazyRelay.storeIfNil(
                DispatchQueue(label: "FluxStore.relay", autoreleaseFrequency: .workItem, target: .global()))
    }
}
