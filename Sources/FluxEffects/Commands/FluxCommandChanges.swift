#if canImport(FluxCore)
    import FluxCore
#endif

/// The changes that a command makes to the state of its store; the default parts throw ``FluxUnchanged``.
///
/// Implement the parts in a ``FluxCommand``, as functions that do not throw. A part that finds nothing to announce may
/// throw `FluxUnchanged()`. Then nothing is announced, recorded or saved, and the changes that the part has already
/// made are undone.
///
/// To allow this, the previous state is kept while a part runs. A part that changes a large collection therefore copies
/// the collection first, while the store's lock is held. For such a change, send an action of the state from a
/// converter instead.
///
/// A part may call the parts of other commands without `try`. If a part of a known type is declared to throw, call it
/// with `try?`.
///
/// Thread safety: called while the store's lock is held; the parts must be pure, like `handle(action:)`.
nonisolated public protocol FluxCommandChanges<State> {
    /// The state of the stores that the command runs on.
    associatedtype State: FluxState
    /// The result of the command's work.
    associatedtype Output: Sendable = Void

    // Disfavored so that a default can be called without `try`, through the overloads of FluxCommand.
    /// Changes the state before the work, once regardless of retries; changes nothing by default.
    ///
    /// - Parameter state: The state of the store.
    /// - Throws: `FluxUnchanged` if there is nothing to announce. Any other error stops the program with a message.
    @_disfavoredOverload
    func begin(state: inout State) throws

    /// Applies the output of the work to the state; if `Output` is `Void`, changes nothing by default.
    ///
    /// - Parameters:
    ///   - state: The state of the store when the work has ended.
    ///   - output: The value that `execute` returned.
    /// - Throws: `FluxUnchanged` if there is nothing to announce. Any other error stops the program with a message.
    @_disfavoredOverload
    func reduce(state: inout State, output: Output) throws

    /// Applies the failure of the work to the state; changes nothing by default.
    ///
    /// Not called when the command is cancelled.
    ///
    /// - Parameters:
    ///   - state: The state of the store when the work has failed.
    ///   - error: The error that the last attempt of `execute` threw.
    /// - Throws: `FluxUnchanged` if there is nothing to announce. Any other error stops the program with a message.
    @_disfavoredOverload
    func reduce(state: inout State, error: any Swift.Error) throws
}

/// The error with which a part of a command reports that it changed nothing.
///
/// Thread safety: a value.
nonisolated public struct FluxUnchanged: Swift.Error {
    /// Whether the default `reduce(state:error:)` threw it, because the command has no such part.
    let isDefault: Bool

    /// Creates the error.
    public init() { self.init(isDefault: false) }

    init(isDefault: Bool) { self.isDefault = isDefault }
}

nonisolated extension FluxCommandChanges {
    /// Changes nothing before the work, by default.
    @_disfavoredOverload
    public func begin(state: inout State) throws(FluxUnchanged) { throw FluxUnchanged() }

    /// Leaves a failure out of the state, by default; the task reports it.
    @_disfavoredOverload
    public func reduce(state: inout State, error: any Swift.Error) throws(FluxUnchanged) {
        throw FluxUnchanged(isDefault: true)
    }

    // Under separate names because, inside FluxCommand, the compiler would pick the overloads that do not throw.
    func tryBegin(_ state: inout State) throws { try begin(state: &state) }

    func tryReduce(_ state: inout State, _ output: Output) throws {
        try reduce(state: &state, output: output)
    }

    func tryReduce(_ state: inout State, error: any Swift.Error) throws {
        try reduce(state: &state, error: error)
    }
}

nonisolated extension FluxCommandChanges where Output == Void {
    /// Changes nothing by default, because the work has no output.
    @_disfavoredOverload
    public func reduce(state: inout State, output: Void) throws(FluxUnchanged) { throw FluxUnchanged() }
}

// These overloads let a part call the same part of another command without `try`. They are generic, and the one without
// a default has an extra parameter, so that the compiler never accepts them as a command's own parts. If a command
// declares its part as throwing, the compiler picks that part instead: call it with `try?`.
nonisolated extension FluxCommand {
    /// Applies the change that the command makes before its work, if any.
    ///
    /// - Parameter state: The state of the store.
    public func begin<Whole>(state: inout Whole) where Whole == State {
        _ = fluxChanges("\(Self.self).begin") { try tryBegin(&state) }
    }

    /// Applies the change that the command makes for its output, if any.
    ///
    /// - Parameters:
    ///   - state: The state of the store.
    ///   - output: The value that `execute` returned.
    ///   - apart: Distinguishes this overload from the part that it calls, which has no such parameter. Leave it out.
    public func reduce<Whole>(state: inout Whole, output: Output, apart: Void = ()) where Whole == State {
        _ = fluxChanges("\(Self.self).reduce") { try tryReduce(&state, output) }
    }

    /// Applies the change that the command makes for its failure, if any.
    ///
    /// - Parameters:
    ///   - state: The state of the store.
    ///   - error: The error that `execute` threw.
    public func reduce<Whole>(state: inout Whole, error: any Swift.Error) where Whole == State {
        _ = fluxChanges("\(Self.self).reduce") { try tryReduce(&state, error: error) }
    }
}
