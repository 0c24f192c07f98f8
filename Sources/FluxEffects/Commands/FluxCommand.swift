#if canImport(FluxCore)
    import FluxCore
#endif

/// An event that carries its own work for one store: one type per operation, with no switch to extend.
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
/// Only `execute` is required. If it returns a value, implement `reduce(state:output:)` too. See ``FluxCommandChanges``
/// for the other parts.
///
/// Thread safety: `begin` and `reduce` run while the store's lock is held and must be pure, like `handle(action:)`.
/// `execute` runs in its own Swift task.
nonisolated public protocol FluxCommand<State>: FluxEvent, FluxCommandChanges {
    // Redeclared so that the compiler infers them from the functions of the command.
    /// The state of the stores that the command runs on.
    associatedtype State
    /// The dependency that the work needs from outside.
    associatedtype Dependency: Sendable = Void
    /// The result of the work.
    associatedtype Output = Void

    /// The rules for commands of this type that run on the same store; none by default.
    static var rules: [FluxRule<Self>] { get }
    /// The clock that measures the durations of the rules; the continuous clock by default.
    static var clock: any _Concurrency.Clock<Swift.Duration> { get }

    /// Performs the work.
    ///
    /// Until it first suspends, it runs on the queue where the work of all commands of the store starts, one after the
    /// other. A long computation there delays the other commands: move it to a separate task or actor, and await it.
    ///
    /// - Parameters:
    ///   - state: The state when the work starts, which is after `begin` and, if the store loads its state, after the
    ///     load. It includes what was applied in between. Keep a value that must stay as it was at `begin` in a
    ///     property of the command.
    ///   - dependency: The dependency that was passed to `run`.
    /// - Returns: The output, which `reduce(state:output:)` applies to the state.
    /// - Throws: Any error. The work is retried if a rule says so.
    func execute(state: State, dependency: Dependency) async throws -> Output
}

nonisolated extension FluxCommand {
    /// No rules by default: commands of one type may overlap.
    public static var rules: [FluxRule<Self>] { [] }

    /// The continuous clock by default.
    public static var clock: any _Concurrency.Clock<Swift.Duration> { _Concurrency.ContinuousClock() }
}

nonisolated extension FluxStore {
    /// Runs a command on this store.
    ///
    /// If no rule holds the command back, the changes of `begin` are in the state when this returns. Commands that one
    /// thread runs begin in that order, even if their types differ. Commands that rules hold back begin when the rules
    /// let them, in no particular order relative to commands that these rules do not cover (C3). Each change is
    /// announced like that of an action.
    ///
    /// Cancelling the task leaves the state as it is at that moment. While the store is still loading, `begin` is held
    /// back like an action, and is applied later even if the task is cancelled. Once a store has ended, rules no longer
    /// apply between commands that are run through its handle.
    ///
    /// - Parameters:
    ///   - command: The command to run.
    ///   - dependency: The dependency that its work needs from outside.
    ///   - rules: A scheduler shared with commands of other types, such as a ``FluxRules``. It applies after the
    ///     command's own rules.
    /// - Returns: The task of the command, which can be awaited, watched or cancelled.
    /// - Complexity: O(log *n*) for *n* commands of its type in flight, plus O(*o*) for *o* observers of the store.
    ///   Each part copies the collections it changes.
    @discardableResult
    public func run<Command: FluxCommand>(
        _ command: Command, dependency: Command.Dependency, rules: (any FluxScheduler)? = nil
    ) -> FluxTask where Command.State == State {
        handle.run(command, dependency: dependency, rules: rules)
    }

    /// Runs a command without a dependency on this store.
    ///
    /// - Parameters:
    ///   - command: The command to run.
    ///   - rules: A scheduler shared with commands of other types.
    /// - Returns: The task of the command, which can be awaited, watched or cancelled.
    @discardableResult
    public func run<Command: FluxCommand>(
        _ command: Command, rules: (any FluxScheduler)? = nil
    ) -> FluxTask where Command.State == State, Command.Dependency == Void {
        handle.run(command, dependency: (), rules: rules)
    }

    /// Runs a command whose dependency is the handle of this store.
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
    ///   - command: The command to run.
    ///   - rules: A scheduler shared with commands of other types.
    /// - Returns: The task of the command, which can be awaited, watched or cancelled.
    @discardableResult
    public func run<Command: FluxCommand>(
        _ command: Command, rules: (any FluxScheduler)? = nil
    ) -> FluxTask where Command.State == State, Command.Dependency == FluxStoreHandle<State> {
        handle.run(command, dependency: handle, rules: rules)
    }
}
