#if canImport(FluxCore)
    import FluxCore
#endif

/// How actions and states become bytes, and which versions of them a program knows.
///
/// ```swift
/// let coding = FluxReplicaCoding<Todo>(
///     encode: { try encoder.bytes($0) }, decode: { bytes, _ in try decoder.action(bytes) },
///     encodeState: { try encoder.bytes($0) }, decodeState: { bytes, _ in try decoder.state(bytes) })
/// ```
///
/// Equal states have to become equal bytes on every node. Otherwise the checksums of equal states differ. Sort the keys
/// of dictionaries and the members of sets.
///
/// Thread safety: the closures may be called on any thread, and concurrently.
nonisolated public struct FluxReplicaCoding<State: FluxState>: Sendable {
    let version: Int
    let versionOf: @Sendable (State.Action) -> Int
    let encode: @Sendable (State.Action) throws -> [UInt8]
    let decode: @Sendable ([UInt8], Int) throws -> State.Action
    let encodeState: @Sendable (State) throws -> [UInt8]
    let decodeState: @Sendable ([UInt8], Int) throws -> State

    /// Creates a coding.
    ///
    /// - Parameters:
    ///   - version: The newest version of actions and of the state that this program knows, 0 or more. A node stops
    ///     before an action with a higher version.
    ///   - versionOf: Returns the oldest version that knows an action. Nodes with an older version then keep running
    ///     until they meet an action that is new to them. With nil, `version` applies to all actions.
    ///   - encode: Turns an action into bytes.
    ///   - decode: Turns bytes and their version into an action. If it throws, the node stops before the action.
    ///   - encodeState: Turns a state into bytes; equal states into equal bytes. If it throws, the replica's status
    ///     reports it.
    ///   - decodeState: Turns bytes and the version of the program that wrote them into a state. If it throws, the node
    ///     stops.
    public init(
        version: Int = 1,
        versionOf: (@Sendable (_ action: State.Action) -> Int)? = nil,
        encode: @escaping @Sendable (_ action: State.Action) throws -> [UInt8],
        decode: @escaping @Sendable (_ bytes: [UInt8], _ version: Int) throws -> State.Action,
        encodeState: @escaping @Sendable (_ state: State) throws -> [UInt8],
        decodeState: @escaping @Sendable (_ bytes: [UInt8], _ version: Int) throws -> State
    ) {
        if version < 0 { fatalError("FluxCore: FluxReplicaCoding was given version \(version). Give 0 or more.") }
        self.version = version
        self.versionOf = versionOf ?? { _ in version }
        (self.encode, self.decode) = (encode, decode)
        (self.encodeState, self.decodeState) = (encodeState, decodeState)
    }
}
