import Dispatch

/// What a store needs only once it does more than hold a state: one word in its core for all of it.
nonisolated final class FluxStoreExtras: Sendable {
    /// The store's own serial queue.
    ///
    /// It targets a global queue rather than the overcommitting default, so that thousands of busy stores share a few
    /// threads.
    let queue = DispatchQueue(label: "FluxStore", autoreleaseFrequency: .workItem, target: .global())
    /// By type of command, what those of this store are run with.
    let commands = FluxLock<[ObjectIdentifier: AnyObject]>([:])
    /// What loads and writes the state of a store that has a persistence or a log: a `FluxKeeper`.
    let keeper: (any AnyObject & Sendable)?

    init(keeper: (any AnyObject & Sendable)? = nil) {
        self.keeper = keeper
    }

    func endCommands() {
        // Released outside the lock: what they hold is the user's.
        let ended = commands.withLock { commands in
            defer { commands = [:] }
            return commands
        }
        withExtendedLifetime(ended) {}
    }
}
