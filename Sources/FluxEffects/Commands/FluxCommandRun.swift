import Dispatch
import Synchronization

#if canImport(FluxCore)
    import FluxCore
#endif

/// One run of a command, with what it needs.
nonisolated final class FluxCommandRun<Command: FluxCommand>: FluxEvent {
    let command: Command
    let dependency: Command.Dependency
    let silence = FluxCommandSilence()

    init(_ command: Command, _ dependency: Command.Dependency) {
        (self.command, self.dependency) = (command, dependency)
    }
}

/// Whether a command has no part that brings its failure into the state; apart from the run, for whoever keeps the action keeps
/// this.
nonisolated final class FluxCommandSilence: Sendable {
    let isSet = Synchronization.Atomic<Bool>(false)
}

/// A change that a command makes; those who look on see it as an action.
nonisolated struct FluxCommandStep<State>: FluxAction, CustomStringConvertible {
    let description: String
    /// False: it changed nothing.
    let body: @Sendable (inout State) -> Bool

    init(_ command: any Any.Type, _ part: String, _ body: @escaping @Sendable (inout State) throws -> Void) {
        let name = "\(command).\(part)"
        description = name
        self.body = { state in
            let before = state
            let hasChanged = fluxChanges(name) { try body(&state) }
            // What it did change all the same would be seen by nobody.
            if !hasChanged { state = before }
            return hasChanged
        }
    }
}

/// Runs a part of a command; false: it has thrown ``FluxUnchanged``.
nonisolated func fluxChanges(_ part: @autoclosure () -> String, _ body: () throws -> Void) -> Bool {
    do {
        try body()
        return true
    } catch {
        if error is FluxUnchanged { return false }
        fatalError(
            """
            FluxCore: \(part()) threw \(error). What a command changes in the state may throw FluxUnchanged alone, to say \
            that it is as it was. Throw from execute, and bring the failure into the state by reduce(state:error:).
            """)
    }
}

/// Goes on, once, where a change is applied, or nobody is left who could: a store that loads holds changes back.
nonisolated final class FluxCommandMark: Sendable {
    /// In a struct of its own for the lock.
    private struct Next { let body: @Sendable () -> Void }

    /// Nil once it has gone on: who keeps the action, such as a history, keeps nothing of the work.
    private let next: FluxLock<Next?>

    init(_ next: @escaping @Sendable () -> Void) { self.next = FluxLock(Next(body: next)) }

    deinit { goOn() }

    func goOn() {
        next.withLock { Swift.exchange(&$0, with: nil) }?.body()
    }
}

/// Runs commands of one type, as a form of converter.
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
        // Put on the queue where `begin` is applied, with the store's lock held: in the order of the beginnings, and up to
        // where each first suspends.
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
        // Not before who began it has left the lock of the store: else what the conversion holds, which is the user's, might go there.
        if conversion.isOver { return conversion.dependency.withAccess { _ in } }
        let run = conversion.event
        let command = run.command
        do {
            let output = try await command.execute(state: conversion.dependency.state, dependency: run.dependency)
            conversion.end(
                .completed,
                sending: Action(Command.self, "reduce") { state in
                    try command.tryReduce(&state, output)
                })
        } catch {
            conversion.end(
                .failed(error),
                sending: Action(Command.self, "reduce") { [silence = run.silence] state in
                    do { try command.tryReduce(&state, error: error) } catch {
                        // Relaxed: the thread that reads it has applied this before, or it is held back and not known yet.
                        silence.isSet.store((error as? FluxUnchanged)?.isDefault == true, ordering: .relaxed)
                        throw error
                    }
                })
        }
    }
}

/// What the commands of one type are run with on one store.
nonisolated final class FluxCommandRunner<Command: FluxCommand>: Sendable {
    private let rules: [any FluxScheduler]
    private let creator: FluxActionCreator<FluxCommandForm<Command>>

    init(_ handle: FluxStoreHandle<Command.State>) {
        let rules = Command.rules
        self.rules = rules.isEmpty ? [] : [FluxRules(rules, clock: Command.clock)]
        creator = Self.creator(handle, self.rules)
    }

    /// With rules that commands of other types share it is another one: as short-lived as one likes, as nobody keeps it.
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
                // One that the state knows nothing of would be lost where nobody keeps the task.
                // Relaxed: see where it is stored.
                if !run.silence.isSet.load(ordering: .relaxed) { return }
                fluxEffectsWarn(
                    "\(Command.self) failed with \(error), and has no reduce(state:error:) that tells of it.")
            },
            observers: { handle.eventObservers },
            sending: { step in _ = handle.withAccess { $0.apply(.other(step, step.body)) } })
    }
}

/// Where the work of all commands of a store starts, in one order (C3).
nonisolated final class FluxCommandQueue: Sendable {
    let queue = DispatchQueue(label: "FluxStore.commands", autoreleaseFrequency: .workItem, target: .global())
}

nonisolated extension FluxStoreHandle {
    /// Runs a command on the store, as `run` of the store does.
    ///
    /// - Parameters:
    ///   - command: What to do.
    ///   - dependency: What its work needs from outside.
    ///   - rules: What it has in common with commands of other types, behind the rules of its own: a ``FluxRules``.
    /// - Returns: The work, to be awaited, watched or cancelled.
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
