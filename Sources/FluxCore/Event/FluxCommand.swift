import Dispatch
import Synchronization

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
/// Thread safety: `begin` and `reduce` run under the lock of the store, and are pure as `handle(action:)` is; `execute`
/// runs in a Swift task of its own.
nonisolated public protocol FluxCommand<State>: FluxEvent {
    /// The state of the stores it is for.
    associatedtype State: FluxState
    /// What the work needs from outside.
    associatedtype Dependency: Sendable = Void
    /// What the work brings.
    associatedtype Output: Sendable = Void

    /// The rules between the commands of this type that run on one store; by default none.
    static var rules: [FluxRule<Self>] { get }
    /// What durations of the rules are measured with; by default the continuous clock.
    static var clock: any _Concurrency.Clock<Swift.Duration> { get }

    /// Changes the state before the work, once however often that is retried; by default not at all.
    ///
    /// - Parameter state: The state of the store.
    func begin(state: inout State)

    /// Does the work.
    ///
    /// Up to where it first suspends, it runs where all commands of the store begin, one after the other: what computes for
    /// long there keeps the others from beginning. Await it in a task or an actor of its own.
    ///
    /// - Parameters:
    ///   - state: The state as `begin` left it.
    ///   - dependency: What `run` was given.
    /// - Returns: What goes into the state.
    /// - Throws: Whatever goes wrong; it is retried if a rule says so.
    func execute(state: State, dependency: Dependency) async throws -> Output

    /// Brings what came of the work into the state; by default, for `Void`, nothing changes.
    ///
    /// - Parameters:
    ///   - state: The state of the store as it is by then.
    ///   - output: What `execute` returned.
    func reduce(state: inout State, output: Output)

    /// Brings the failure of the work into the state; by default nothing changes.
    ///
    /// Not called when the command is cancelled.
    ///
    /// - Parameters:
    ///   - state: The state of the store as it is by then.
    ///   - error: What `execute` threw the last time.
    func reduce(state: inout State, error: any Error)
}

nonisolated extension FluxCommand {
    /// By default commands of one type overlap as they come.
    public static var rules: [FluxRule<Self>] { [] }

    /// By default time is what the continuous clock says.
    public static var clock: any _Concurrency.Clock<Swift.Duration> { _Concurrency.ContinuousClock() }

    /// By default the state is as it was until the work is done.
    public func begin(state: inout State) { fluxChangeNothing() }

    /// By default the state knows nothing of a failure; the task does.
    public func reduce(state: inout State, error: any Error) { fluxChangeNothing() }
}

nonisolated extension FluxCommand where Output == Void {
    /// By default work without an output changes nothing.
    public func reduce(state: inout State, output: Void) { fluxChangeNothing() }
}

nonisolated extension FluxStore {
    /// Runs a command on this store.
    ///
    /// Commands that one thread runs begin in that order, also those of different types, unless rules have them wait
    /// (C3). Each change it makes is announced like that of an action. Cancelling the task leaves the state as it is then; while
    /// the store is still loading, `begin` is held back as an action is, and comes to pass all the same.
    ///
    /// - Parameters:
    ///   - command: What to do.
    ///   - dependency: What its work needs from outside.
    /// - Returns: The work, to be awaited, watched or cancelled.
    /// - Complexity: O(log *n*) of the commands of its type in flight.
    @discardableResult
    public func run<Command: FluxCommand>(
        _ command: Command,
        dependency: Command.Dependency
    ) -> FluxTask where Command.State == State {
        let (conversions, queue) = core.conversions(for: Command.self)
        return conversions.fire(FluxCommandRun(command, dependency), on: queue)
    }

    /// Runs a command that needs nothing from outside on this store.
    ///
    /// - Parameter command: What to do.
    /// - Returns: The work, to be awaited, watched or cancelled.
    @discardableResult
    public func run<Command: FluxCommand>(
        _ command: Command
    ) -> FluxTask where Command.State == State, Command.Dependency == Void {
        run(command, dependency: ())
    }
}

/// An event that stands for another one.
nonisolated protocol FluxRun: FluxEvent {
    var shown: any FluxEvent { get }
}

/// One run of a command, with what it needs.
nonisolated final class FluxCommandRun<Command: FluxCommand>: FluxRun, CustomStringConvertible {
    var description: String { "\(command)" }
    var shown: any FluxEvent { command }
    let command: Command
    let dependency: Command.Dependency
    /// So that a retry does not begin again.
    let hasBegun = Synchronization.Atomic<Bool>(false)
    /// The work that it is, set before that begins, which keeps it.
    @exclusivity(unchecked) nonisolated(unsafe) var task: Unmanaged<FluxTask>?
    /// Whether the command has brought its failure into the state itself.
    let hasToldOfFailure = Synchronization.Atomic<Bool>(false)

    init(_ command: Command, _ dependency: Command.Dependency) {
        self.command = command
        self.dependency = dependency
    }
}

/// A change that a command makes; those who look on see it as an action.
nonisolated struct FluxCommandStep<State>: FluxAction, CustomStringConvertible {
    let description: String
    let body: @Sendable (inout State) -> Void

    init(_ command: Any, _ function: String, _ body: @escaping @Sendable (inout State) -> Void) {
        description = "\(Swift.type(of: command)).\(function)"
        self.body = body
    }
}

/// Runs commands of one type as a converter of events.
nonisolated enum FluxCommandConverter<Command: FluxCommand>: FluxAsyncActionConverter {
    typealias Event = FluxCommandRun<Command>
    typealias Action = FluxCommandStep<Command.State>
    typealias Dependency = FluxStoreCore<Command.State>

    static func convert(
        event run: Event,
        dependency core: FluxStoreCore<Command.State>,
        send: @escaping @Sendable (Action) -> Void
    ) async throws {
        let command = run.command
        if !run.hasBegun.exchange(true, ordering: .sequentiallyConsistent) {
            send(Action(command, "begin") { command.begin(state: &$0) })
            // Held back while the store loads, in its turn; the work is done on what was loaded, or not at all.
            await core.keeper?.loaded()
            try _Concurrency.Task.checkCancellation()
        }
        let output = try await command.execute(state: core.read { $0.state }, dependency: run.dependency)
        // One step with the end: a command that was cancelled has brought nothing in, and one that has, has completed.
        run.task?._withUnsafeGuaranteedRef { task in
            task.complete {
                core.change(Action(command, "reduce") { command.reduce(state: &$0, output: output) })
            }
        }
    }

    static func action(for error: any Error, event: Event) -> Action? {
        Action(event.command, "reduce") { state in
            event.command.reduce(state: &state, error: error)
            let isDefault = FluxThreads.shared.current.pointee.changedNothing
            event.hasToldOfFailure.store(!isDefault, ordering: .sequentiallyConsistent)
        }
    }

    /// An error that the state knows nothing of would be lost where nobody keeps the task.
    static func report(_ error: any Error, _ run: Event) {
        if run.hasToldOfFailure.load(ordering: .sequentiallyConsistent) { return }
        fluxWarn("\(Command.self) failed with \(error), and has no reduce(state:error:) that tells of it.")
    }
}

/// What the commands of a store are run with.
nonisolated struct FluxCommandTypes {
    /// By type of command.
    var known: [ObjectIdentifier: AnyObject] = [:]
    private var queue: DispatchQueue?

    /// Where all of them begin, in one order (C3); made on the first run.
    mutating func start() -> DispatchQueue {
        let start =
            queue ?? DispatchQueue(label: "FluxStore.commands", autoreleaseFrequency: .workItem, target: .global())
        queue = start
        return start
    }
}

nonisolated extension FluxStoreCore {
    /// What commands of a type are run with, made on the first run, and where those of all types begin.
    func conversions<Command: FluxCommand>(
        for type: Command.Type
    ) -> (FluxConversions<FluxCommandConverter<Command>>, DispatchQueue) where Command.State == State {
        typealias Conversions = FluxConversions<FluxCommandConverter<Command>>
        let id = ObjectIdentifier(type)
        let (known, queue) = extras.commands.withLock { ($0.known[id], $0.start()) }
        if let known { return (unsafeDowncast(known, to: Conversions.self), queue) }
        // Made outside the lock: rules and clock are the user's code, and may run commands.
        let made = Conversions(
            dependency: self, rules: Command.rules.map { $0.forRuns() }, clock: Command.clock,
            onFailure: { FluxCommandConverter<Command>.report($0, $1) }
        ) { [self] in
            chainIfWatched
        } send: { [self] step in
            change(step)
        } run: { conversions, task, spare in
            if let event = task._withUnsafeGuaranteedRef({ $0.load }) {
                fluxRead(event, as: FluxCommandRun<Command>.self).task = task
            }
            FluxCommandConverter<Command>._convert(task, by: conversions, &spare)
        }
        let first = extras.commands.withLock { commands in
            let first = commands.known[id] ?? made
            commands.known[id] = first
            return first
        }
        return (unsafeDowncast(first, to: Conversions.self), queue)
    }
}

nonisolated extension FluxRule where Event: FluxCommand {
    func forRuns() -> FluxRule<FluxCommandRun<Event>> {
        mapped { $0.command }
    }
}
