import Dispatch

/// What a store needs only once it does more than hold a state: one word in its core for all of it.
nonisolated final class FluxStoreExtras: Sendable {
    /// The store's own serial queue.
    ///
    /// It targets a global queue rather than the overcommitting default, so that thousands of busy stores share a few
    /// threads.
    let queue = DispatchQueue(label: "FluxStore", autoreleaseFrequency: .workItem, target: .global())
    /// What the commands of this store are run with.
    let commands = FluxLock(FluxCommandTypes())
    /// What loads and writes the state of a store that has a persistence or a log: a `FluxKeeper`.
    let keeper: (any AnyObject & Sendable)?

    /// Those who are told of the actions: the store's own and its dispatcher's.
    let taps = FluxLock((own: FluxActionTap?.none, ownUses: 0, all: ContiguousArray<FluxActionTap>()))
    /// Those of subscriptions that belong to objects.
    let leashes = FluxLock(FluxLeashes())
    private let lazyRelay = FluxOnce<DispatchQueue>()
    private let making = FluxLock(())
    private let lazyResident = FluxOnce<FluxResident>()

    init(keeper: (any AnyObject & Sendable)? = nil) {
        self.keeper = keeper
    }

    /// The queue that iterators are told on, made on first use: a slow handler on the other does not delay them.
    var relay: DispatchQueue {
        lazyRelay.load()
            ?? lazyRelay.storeIfNil(
                DispatchQueue(label: "FluxStore.relay", autoreleaseFrequency: .workItem, target: .global()))
    }

    func endCommands() {
        // Released outside the lock: what they hold is the user's.
        let ended = commands.withLock { commands in
            defer { commands.known = [:] }
            return commands.known
        }
        withExtendedLifetime(ended) {}
    }

    /// What a store needs once it has a name, middleware and the like, if anybody has needed it.
    var residentIfAny: FluxResident? { lazyResident.load() }

    /// Calls a closure with it, if there is one, without a retain.
    func withResident<Result>(_ body: (FluxResident) -> Result?) -> Result? {
        lazyResident.withLoaded(body)
    }

    /// The same, made on first use: the closure is called once at most, under a lock.
    func resident(_ make: () -> FluxResident) -> FluxResident {
        if let resident = lazyResident.load() { return resident }
        return making.withLock { _ in lazyResident.load() ?? lazyResident.storeIfNil(make()) }
    }

    /// The same for the end of the store, which has to see all that was done when it was made.
    func lastResident() -> FluxResident? {
        withResidentIfAny { $0 }
    }

    /// Calls a closure while none is made.
    func withResidentIfAny<Result>(_ body: (FluxResident?) -> Result) -> Result {
        making.withLock { _ in body(lazyResident.load()) }
    }
}
