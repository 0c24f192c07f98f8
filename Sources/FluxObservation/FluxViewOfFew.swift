#if canImport(FluxCore)
    import FluxCore
#endif

/// Views of two sources and of three, as most are: compiled where the states are known, those of stores take half the time of others,
/// and the compiler finds the types of what they compute at once.
nonisolated extension FluxView {
    /// Makes a view of two sources, compared by a function of yours.
    ///
    /// - Parameters:
    ///   - first: One store, view or other source.
    ///   - second: The other.
    ///   - isSame: Whether two values are as good as equal.
    ///   - transform: Makes the value from the states. Called on any thread, with no lock held.
    /// - Complexity: O(1), and one call of `transform`.
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

    /// Makes a view of two sources that announces what is not equal to the value before.
    ///
    /// - Parameters:
    ///   - first: One store, view or other source.
    ///   - second: The other.
    ///   - transform: Makes the value from the states. Called on any thread, with no lock held.
    /// - Complexity: O(1), and one call of `transform`.
    @inlinable
    public convenience init<First, Second>(
        _ first: some FluxSource<First>, _ second: some FluxSource<Second>,
        transform: @escaping @Sendable (First, Second) -> State
    ) where State: Equatable {
        self.init(first, second, by: { $0 == $1 }, transform)
    }

    /// Makes a view of three sources, compared by a function of yours.
    ///
    /// - Parameters:
    ///   - first: One store, view or other source.
    ///   - second: Another.
    ///   - third: The last.
    ///   - isSame: Whether two values are as good as equal.
    ///   - transform: Makes the value from the states. Called on any thread, with no lock held.
    /// - Complexity: O(1), and one call of `transform`.
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

    /// Makes a view of three sources that announces what is not equal to the value before.
    ///
    /// - Parameters:
    ///   - first: One store, view or other source.
    ///   - second: Another.
    ///   - third: The last.
    ///   - transform: Makes the value from the states. Called on any thread, with no lock held.
    /// - Complexity: O(1), and one call of `transform`.
    @inlinable
    public convenience init<First, Second, Third>(
        _ first: some FluxSource<First>, _ second: some FluxSource<Second>, _ third: some FluxSource<Third>,
        transform: @escaping @Sendable (First, Second, Third) -> State
    ) where State: Equatable {
        self.init(first, second, third, by: { $0 == $1 }, transform)
    }
}
