#if canImport(FluxCore)
    import FluxCore
#endif

/// Views of two or three sources, as most views are.
///
/// They are compiled where the states are known: views of stores then take half the time of others, and the compiler
/// finds the types in `transform` at once.
nonisolated extension FluxView {
    /// Creates a view of two sources, with values compared by your function.
    ///
    /// - Parameters:
    ///   - first: The first store, view or other source.
    ///   - second: The second source.
    ///   - isSame: Returns whether two values count as equal.
    ///   - transform: Computes the value from the states. Called on any thread, with no lock held.
    /// - Complexity: O(*n*) for *n* stores below, and one call of `transform`.
    @inlinable
    public convenience init<First, Second>(
        _ first: some FluxSource<First>, _ second: some FluxSource<Second>,
        by isSame: @escaping @Sendable (State, State) -> Bool,
        _ transform: @escaping @Sendable (First, Second) -> State
    ) {
        self.init(
            FluxViewSources([first, second]) { first.stamp &+ second.stamp }, by: isSame,
            capture: Self.capture(first, second, by: transform), read: { (first.state, second.state) },
            { transform($0.0, $0.1) })
    }

    /// Creates a view of two sources that announces each value that does not equal the one before.
    ///
    /// - Parameters:
    ///   - first: The first store, view or other source.
    ///   - second: The second source.
    ///   - transform: Computes the value from the states. Called on any thread, with no lock held.
    /// - Complexity: O(*n*) for *n* stores below, and one call of `transform`.
    @inlinable
    public convenience init<First, Second>(
        _ first: some FluxSource<First>, _ second: some FluxSource<Second>,
        transform: @escaping @Sendable (First, Second) -> State
    ) where State: Equatable {
        self.init(first, second, by: { $0 == $1 }, transform)
    }

    /// Creates a view of three sources, with values compared by your function.
    ///
    /// - Parameters:
    ///   - first: The first store, view or other source.
    ///   - second: The second source.
    ///   - third: The third source.
    ///   - isSame: Returns whether two values count as equal.
    ///   - transform: Computes the value from the states. Called on any thread, with no lock held.
    /// - Complexity: O(*n*) for *n* stores below, and one call of `transform`.
    @inlinable
    public convenience init<First, Second, Third>(
        _ first: some FluxSource<First>, _ second: some FluxSource<Second>, _ third: some FluxSource<Third>,
        by isSame: @escaping @Sendable (State, State) -> Bool,
        _ transform: @escaping @Sendable (First, Second, Third) -> State
    ) {
        self.init(
            FluxViewSources([first, second, third]) { first.stamp &+ second.stamp &+ third.stamp }, by: isSame,
            capture: Self.capture(first, second, third, by: transform),
            read: { (first.state, second.state, third.state) }, { transform($0.0, $0.1, $0.2) })
    }

    /// Creates a view of three sources that announces each value that does not equal the one before.
    ///
    /// - Parameters:
    ///   - first: The first store, view or other source.
    ///   - second: The second source.
    ///   - third: The third source.
    ///   - transform: Computes the value from the states. Called on any thread, with no lock held.
    /// - Complexity: O(*n*) for *n* stores below, and one call of `transform`.
    @inlinable
    public convenience init<First, Second, Third>(
        _ first: some FluxSource<First>, _ second: some FluxSource<Second>, _ third: some FluxSource<Third>,
        transform: @escaping @Sendable (First, Second, Third) -> State
    ) where State: Equatable {
        self.init(first, second, third, by: { $0 == $1 }, transform)
    }
}
