#if canImport(FluxCore)
    import FluxCore
#endif

/// How actions and states become bytes, and what versions of them a program knows.
///
/// ```swift
/// let coding = FluxReplicaCoding<Todo>(
///     encode: { try encoder.bytes($0) }, decode: { bytes, _ in try decoder.action(bytes) },
///     encodeState: { try encoder.bytes($0) }, decodeState: { bytes, _ in try decoder.state(bytes) })
/// ```
///
/// Equal states have to become equal bytes on every node, or checksums differ where states do not: sort the keys of
/// dictionaries and the members of sets.
///
/// Thread safety: the closures are called on any thread, and may be called at the same time.
nonisolated public struct FluxReplicaCoding<State: FluxState>: Sendable {
    let version: Int
    let versionOf: @Sendable (State.Action) -> Int
    let encode: @Sendable (State.Action) throws -> [UInt8]
    let decode: @Sendable ([UInt8], Int) throws -> State.Action
    let encodeState: @Sendable (State) throws -> [UInt8]
    let decodeState: @Sendable ([UInt8], Int) throws -> State

    /// Makes a coding.
    ///
    /// - Parameters:
    ///   - version: The newest version of actions and of the state that this program knows, 0 or more. A node stops before an
    ///     action with a higher one.
    ///   - versionOf: The oldest version that knows an action, so that old nodes go on for as long as no action is new to them;
    ///     nil: `version`, of all actions.
    ///   - encode: Makes bytes of an action.
    ///   - decode: Makes an action of bytes and their version. Where it throws, the node stops before the action.
    ///   - encodeState: Makes bytes of a state, equal ones of equal states. Where it throws, the replica's status says so.
    ///   - decodeState: Makes a state of bytes and the version of the program that wrote them.
    public init(
        version: Int = 1,
        versionOf: (@Sendable (_ action: State.Action) -> Int)? = nil,
        encode: @escaping @Sendable (_ action: State.Action) throws -> [UInt8],
        decode: @escaping @Sendable (_ bytes: [UInt8], _ version: Int) throws -> State.Action,
        encodeState: @escaping @Sendable (_ state: State) throws -> [UInt8],
        decodeState: @escaping @Sendable (_ bytes: [UInt8], _ version: Int) throws -> State
    ) {
        if version < 0 { fatalError("FluxCore: FluxReplicaCoding was given the version \(version). Give 0 or more.") }
        self.version = version
        self.versionOf = versionOf ?? { _ in version }
        (self.encode, self.decode) = (encode, decode)
        (self.encodeState, self.decodeState) = (encodeState, decodeState)
    }
}
