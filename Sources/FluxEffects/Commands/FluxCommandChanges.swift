#if canImport(FluxCore)
    import FluxCore
#endif

/// What a command changes in the state of its store; a part that is left to its default says so by ``FluxUnchanged``.
///
/// Implement the parts in a ``FluxCommand``, as functions that do not throw. One that finds nothing to announce may throw
/// `FluxUnchanged()`: then nothing is announced, recorded or saved, and what it changed before that is taken back. So the state
/// before a part is kept while it runs, and a part that changes a large collection copies that first, under the lock of the store:
/// let it send an action of the state instead, by a converter.
///
/// A part may call those of other commands: without a `try`, or by `try?` where the part of a known type is declared to throw.
///
/// Thread safety: called under the lock of the store, and pure as `handle(action:)` is.
nonisolated public protocol FluxCommandChanges<State> {
    /// The state of the stores it is for.
    associatedtype State: FluxState
    /// What the work of the command brings.
    associatedtype Output: Sendable = Void

    // Disfavored, so that a default can be called without a `try`: by the overloads of FluxCommand.
    /// Changes the state before the work, once however often that is retried; by default not at all.
    ///
    /// - Parameter state: The state of the store.
    /// - Throws: `FluxUnchanged` if there is nothing to announce, and nothing else: that stops the program with a message.
    @_disfavoredOverload
    func begin(state: inout State) throws

    /// Brings what came of the work into the state; by default, for `Void`, nothing changes.
    ///
    /// - Parameters:
    ///   - state: The state of the store as it is by then.
    ///   - output: What `execute` returned.
    /// - Throws: `FluxUnchanged` if there is nothing to announce, and nothing else: that stops the program with a message.
    @_disfavoredOverload
    func reduce(state: inout State, output: Output) throws

    /// Brings the failure of the work into the state; by default nothing changes.
    ///
    /// Not called when the command is cancelled.
    ///
    /// - Parameters:
    ///   - state: The state of the store as it is by then.
    ///   - error: What `execute` threw the last time.
    /// - Throws: `FluxUnchanged` if there is nothing to announce, and nothing else: that stops the program with a message.
    @_disfavoredOverload
    func reduce(state: inout State, error: any Swift.Error) throws
}

/// Says that a part of a command has changed nothing.
///
/// Thread safety: a value.
nonisolated public struct FluxUnchanged: Swift.Error {
    /// Whether the command has no such part.
    let isDefault: Bool

    /// Says it.
    public init() { self.init(isDefault: false) }

    init(isDefault: Bool) { self.isDefault = isDefault }
}

nonisolated extension FluxCommandChanges {
    /// By default the state is as it was until the work is done.
    @_disfavoredOverload
    public func begin(state: inout State) throws(FluxUnchanged) { throw FluxUnchanged() }

    /// By default the state knows nothing of a failure; the task does.
    @_disfavoredOverload
    public func reduce(state: inout State, error: any Swift.Error) throws(FluxUnchanged) {
        throw FluxUnchanged(isDefault: true)
    }

    // By names of their own: inside FluxCommand the overloads that do not throw would be meant.
    func tryBegin(_ state: inout State) throws { try begin(state: &state) }

    func tryReduce(_ state: inout State, _ output: Output) throws {
        try reduce(state: &state, output: output)
    }

    func tryReduce(_ state: inout State, error: any Swift.Error) throws {
        try reduce(state: &state, error: error)
    }
}

nonisolated extension FluxCommandChanges where Output == Void {
    /// By default work without an output changes nothing.
    @_disfavoredOverload
    public func reduce(state: inout State, output: Void) throws(FluxUnchanged) { throw FluxUnchanged() }
}

// For a part that has the same part of another command done too, without a `try`. Generic, and the one that has no default with a
// parameter more, so that no command takes them for its own parts. Where a command declares that its part throws, the compiler takes
// that one instead: call it by `try?`.
nonisolated extension FluxCommand {
    /// Changes the state as the command does before its work, if it does.
    ///
    /// - Parameter state: The state of the store.
    public func begin<Whole>(state: inout Whole) where Whole == State {
        _ = fluxChanges("\(Self.self).begin") { try tryBegin(&state) }
    }

    /// Changes the state as the command does by its output, if it does.
    ///
    /// - Parameters:
    ///   - state: The state of the store.
    ///   - output: What `execute` returned.
    ///   - apart: Tells this from the part that it calls, which has no such parameter: leave it out.
    public func reduce<Whole>(state: inout Whole, output: Output, apart: Void = ()) where Whole == State {
        _ = fluxChanges("\(Self.self).reduce") { try tryReduce(&state, output) }
    }

    /// Changes the state as the command does by its failure, if it does.
    ///
    /// - Parameters:
    ///   - state: The state of the store.
    ///   - error: What `execute` threw.
    public func reduce<Whole>(state: inout Whole, error: any Swift.Error) where Whole == State {
        _ = fluxChanges("\(Self.self).reduce") { try tryReduce(&state, error: error) }
    }
}
