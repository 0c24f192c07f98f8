import Dispatch
import Synchronization

#if canImport(FluxCore)
    import FluxCore
#endif

/// One run of a command, with its dependency.
nonisolated final class FluxCommandRun<Command: FluxCommand>: FluxEvent {
    let command: Command
    let dependency: Command.Dependency
    let silence = FluxCommandSilence()

    init(_ command: Command, _ dependency: Command.Dependency) {
        (self.command, self.dependency) = (command, dependency)
    }
}

/// Records whether a command lacks a part that applies its failure to the state.
///
/// It is an object apart from the run because the action of the failure captures it. Whatever keeps that action, such
/// as a history, then does not keep the run.
nonisolated final class FluxCommandSilence: Sendable {
    let isSet = Synchronization.Atomic<Bool>(false)
}

/// A change that a command makes; observers see it as an action.
nonisolated struct FluxCommandStep<State>: FluxAction, CustomStringConvertible {
    let description: String
    /// Makes the change; returns false if nothing changed.
    let body: @Sendable (inout State) -> Bool

    init(_ command: any Any.Type, _ part: String, _ body: @escaping @Sendable (inout State) throws -> Void) {
        let name = "\(command).\(part)"
        description = name
        self.body = { state in
            let before = state
            let hasChanged = fluxChanges(name) { try body(&state) }
            // Undo what the part changed before it threw: no observer would be notified of that.
            if !hasChanged { state = before }
            return hasChanged
        }
    }
}

/// Runs a part of a command; returns false if it throws ``FluxUnchanged``.
nonisolated func fluxChanges(_ part: @autoclosure () -> String, _ body: () throws -> Void) -> Bool {
    do {
        try body()
        return true
    } catch {
        if error is FluxUnchanged { return false }
        fatalError(
            """
            FluxCore: \(part()) threw \(error). This part of a command may throw only FluxUnchanged, to say that it \
            changed nothing. Throw other errors from execute, and apply the failure to the state in reduce(state:error:).
            """)
    }
}

/// Calls a closure once: when a change is applied, or when the change is released without having been applied.
///
/// A store that loads its state holds changes back, so `send` may return before the change is applied.
nonisolated final class FluxCommandMark: Sendable {
    /// A struct around the closure, as `FluxLock` advises.
    private struct Next { let body: @Sendable () -> Void }

    /// Nil after the call, so that whatever keeps the action, such as a history, does not keep the work.
    private let next: FluxLock<Next?>

    init(_ next: @escaping @Sendable () -> Void) { self.next = FluxLock(Next(body: next)) }

    deinit { goOn() }

    func goOn() {
        next.withLock { Swift.exchange(&$0, with: nil) }?.body()
    }
}

/// The form of converter that runs commands of one type.
nonisolated enum FluxCommandForm<Command: FluxCommand>: FluxActionConverter {
    typealias Event = FluxCommandRun<Command>
    typealias Action = FluxCommandStep<Command.State>
    typealias Dependency = FluxStoreHandle<Command.State>

    static var startsAtOnce: Bool { true }
    static var sharesConversions: Bool { false }

    static func shown(_ run: Event) -> any FluxEvent { run.command }

    static func convert(event: Event, dependency: Dependency, actionHandler: @escaping @Sendable (Action) -> Void) {}

    static func start(_ conversion: FluxConversion<Self>) {
        let command = conversion.event.command
        // Enqueued where `begin` is applied, while the store's lock is held. So the work of commands starts in the
        // order in which they begin, and each runs until it first suspends before the next one starts.
        let mark = FluxCommandMark {
            conversion.queue.async { conversion.perform { await execute(conversion) } }
        }
        if conversion.attempt > 1 { return mark.goOn() }
        conversion.send(
            Action(Command.self, "begin") { state in
                defer { mark.goOn() }
                try command.tryBegin(&state)
            })
    }

    nonisolated(nonsending) private static func execute(_ conversion: FluxConversion<Self>) async {
        // Wait until the thread that applied `begin` has left the store's lock. Otherwise that thread might release the
        // last reference to the conversion, and thereby the user's values, while it holds the lock.
        if conversion.isOver { return conversion.dependency.withAccess { _ in } }
        let run = conversion.event
        let command = run.command
        do {
            let output = try await command.execute(state: conversion.dependency.state, dependency: run.dependency)
            conversion.end(.completed, sending: Action(Command.self, "reduce") { try command.tryReduce(&$0, output) })
        } catch {
            let reduce = Action(Command.self, "reduce") { [silence = run.silence] state in
                do { try command.tryReduce(&state, error: error) } catch {
                    // Relaxed: the thread that reads it has applied this change before, or else the change is held
                    // back and the answer not known yet.
                    silence.isSet.store((error as? FluxUnchanged)?.isDefault == true, ordering: .relaxed)
                    throw error
                }
            }
            conversion.end(.failed(error), sending: reduce)
        }
    }
}

/// Runs the commands of one type on one store.
nonisolated final class FluxCommandRunner<Command: FluxCommand>: Sendable {
    private let rules: [any FluxScheduler]
    private let creator: FluxActionCreator<FluxCommandForm<Command>>

    init(_ handle: FluxStoreHandle<Command.State>) {
        let rules = Command.rules
        self.rules = rules.isEmpty ? [] : [FluxRules(rules, clock: Command.clock)]
        creator = Self.creator(handle, self.rules)
    }

    /// Returns the store's creator for the commands or, if they share a scheduler with other types, a new creator.
    ///
    /// Nothing but its events keeps a new creator alive, so it may be short-lived.
    func creator(
        _ handle: FluxStoreHandle<Command.State>, sharing scheduler: (any FluxScheduler)?
    ) -> FluxActionCreator<FluxCommandForm<Command>> {
        scheduler.map { Self.creator(handle, rules + [$0]) } ?? creator
    }

    private static func creator(
        _ handle: FluxStoreHandle<Command.State>, _ schedulers: [any FluxScheduler]
    ) -> FluxActionCreator<FluxCommandForm<Command>> {
        FluxActionCreator(
            dependency: handle, schedulers: schedulers,
            onFailure: { error, run in
                // A failure that the state does not record would be lost if the caller does not keep the task.
                // Relaxed: see where it is stored.
                if !run.silence.isSet.load(ordering: .relaxed) { return }
                fluxEffectsWarn(
                    "\(Command.self) failed with \(error), and has no reduce(state:error:) to record the failure.")
            },
            observers: { handle.eventObservers },
            sending: { step in _ = handle.withAccess { $0.apply(.other(step, step.body)) } })
    }
}

/// The queue on which the work of all commands of a store starts, in one order (C3).
nonisolated final class FluxCommandQueue: Sendable {
    let queue = DispatchQueue(label: "FluxStore.commands", autoreleaseFrequency: .workItem, target: .global())
}

nonisolated extension FluxStoreHandle {
    /// Runs a command on the store, as `run` of the store does.
    ///
    /// - Parameters:
    ///   - command: The command to run.
    ///   - dependency: The dependency that its work needs from outside.
    ///   - rules: A scheduler shared with commands of other types, such as a ``FluxRules``. It applies after the
    ///     command's own rules.
    /// - Returns: The task of the command, which can be awaited, watched or cancelled.
    @discardableResult
    public func run<Command: FluxCommand>(
        _ command: Command, dependency: Command.Dependency, rules: (any FluxScheduler)? = nil
    ) -> FluxTask where Command.State == State {
        FluxPureCode.forbid("run")
        let runner = feature(FluxCommandRunner<Command>.self) { FluxCommandRunner(self) }
        let queue = feature(FluxCommandQueue.self) { FluxCommandQueue() }.queue
        return runner.creator(self, sharing: rules).fire(FluxCommandRun(command, dependency), on: queue)
    }
}
