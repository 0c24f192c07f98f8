#if canImport(FluxCore)
    import FluxCore
#endif

/// An event that carries its own work for one store: one type per operation, and no switch to edit for a new one.
///
/// ```swift
/// struct Load: FluxCommand {
///     static let rules: [FluxRule<Load>] = [.unique(cancelling: .earlier)]
///     let page: Int
///
///     func begin(state: inout Feed) { state.isLoading = true }
///     func execute(state: Feed, dependency: Client) async throws -> [Item] { try await dependency.page(page) }
///     func reduce(state: inout Feed, output: [Item]) { state = Feed(items: state.items + output) }
///     func reduce(state: inout Feed, error: any Error) { state.isLoading = false }
/// }
///
/// let task = store.run(Load(page: 1), dependency: client)
/// ```
///
/// Only `execute` is required; what it returns needs a `reduce` of its own. See ``FluxCommandChanges`` for the other parts.
///
/// Thread safety: `begin` and `reduce` run under the lock of the store, and are pure as `handle(action:)` is; `execute`
/// runs in a Swift task of its own.
nonisolated public protocol FluxCommand<State>: FluxEvent, FluxCommandChanges {
    // Repeated, so that the compiler infers them from the parts.
    /// The state of the stores it is for.
    associatedtype State
    /// What the work needs from outside.
    associatedtype Dependency: Sendable = Void
    /// What the work brings.
    associatedtype Output = Void

    /// The rules between the commands of this type that run on one store; by default none.
    static var rules: [FluxRule<Self>] { get }
    /// What durations of the rules are measured with; by default the continuous clock.
    static var clock: any _Concurrency.Clock<Swift.Duration> { get }

    /// Does the work.
    ///
    /// Up to where it first suspends, it runs where the work of all commands of the store starts, one after the other: what
    /// computes for long there keeps the others from it. Await it in a task or an actor of its own.
    ///
    /// - Parameters:
    ///   - state: The state when the work starts, soon after `begin`: what was applied in between is in it, too. What `begin` has
    ///     fixed for the work is best a property of the command. Of a store that loads its state, after that.
    ///   - dependency: What `run` was given.
    /// - Returns: What goes into the state.
    /// - Throws: Whatever goes wrong; it is retried if a rule says so.
    func execute(state: State, dependency: Dependency) async throws -> Output
}

nonisolated extension FluxCommand {
    /// By default commands of one type overlap as they come.
    public static var rules: [FluxRule<Self>] { [] }

    /// By default time is what the continuous clock says.
    public static var clock: any _Concurrency.Clock<Swift.Duration> { _Concurrency.ContinuousClock() }
}

nonisolated extension FluxStore {
    /// Runs a command on this store.
    ///
    /// If no rule holds it back, what `begin` changes is in the state when this returns. Commands that one thread runs begin in
    /// that order, also those of different types; those that rules have wait go on in no order with others (C3). Each change is
    /// announced like that of an action. Cancelling the task leaves the state as it is then; while the store is still loading, `begin`
    /// is held back as an action is, and comes to pass all the same. By the handle of a store that has ended no rules hold between its
    /// commands any more.
    ///
    /// - Parameters:
    ///   - command: What to do.
    ///   - dependency: What its work needs from outside.
    ///   - rules: What it has in common with commands of other types, behind the rules of its own: a ``FluxRules``.
    /// - Returns: The work, to be awaited, watched or cancelled.
    /// - Complexity: O(log *n*) of the commands of its type in flight; each part copies the collections that it changes.
    @discardableResult
    public func run<Command: FluxCommand>(
        _ command: Command, dependency: Command.Dependency, rules: (any FluxScheduler)? = nil
    ) -> FluxTask where Command.State == State {
        handle.run(command, dependency: dependency, rules: rules)
    }

    /// Runs a command that needs nothing from outside on this store.
    ///
    /// - Parameters:
    ///   - command: What to do.
    ///   - rules: What it has in common with commands of other types.
    /// - Returns: The work, to be awaited, watched or cancelled.
    @discardableResult
    public func run<Command: FluxCommand>(
        _ command: Command, rules: (any FluxScheduler)? = nil
    ) -> FluxTask where Command.State == State, Command.Dependency == Void {
        handle.run(command, dependency: (), rules: rules)
    }

    /// Runs a command that works on its store: one whose dependency is the handle of that.
    ///
    /// ```swift
    /// struct Clean: FluxCommand {
    ///     func execute(state: Feed, dependency store: FluxStoreHandle<Feed>) async throws {
    ///         for item in state.items where await item.isStale {
    ///             _ = store.withAccess { $0.apply(.action(.remove(item))) }
    ///         }
    ///     }
    /// }
    /// store.run(Clean())
    /// ```
    ///
    /// - Parameters:
    ///   - command: What to do.
    ///   - rules: What it has in common with commands of other types.
    /// - Returns: The work, to be awaited, watched or cancelled.
    @discardableResult
    public func run<Command: FluxCommand>(
        _ command: Command, rules: (any FluxScheduler)? = nil
    ) -> FluxTask where Command.State == State, Command.Dependency == FluxStoreHandle<State> {
        handle.run(command, dependency: handle, rules: rules)
    }
}
