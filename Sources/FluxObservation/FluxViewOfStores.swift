#if canImport(FluxCore)
    import FluxCore
#endif

/// Views of two stores and of three, as most are: compiled where the states are known, they take half the time of others.
nonisolated extension FluxView {
    /// Makes a view of two stores, compared by a function of yours.
    ///
    /// - Parameters:
    ///   - first: One store.
    ///   - second: The other.
    ///   - isSame: Whether two values are as good as equal.
    ///   - transform: Makes the value from the states. Called on any thread, with no lock held.
    /// - Complexity: O(1), and one call of `transform`.
    @inlinable
    public convenience init<First, Second>(
        _ first: FluxStore<First>, _ second: FluxStore<Second>,
        by isSame: @escaping @Sendable (State, State) -> Bool,
        _ transform: @escaping @Sendable (First, Second) -> State
    ) {
        self.init(
            FluxViewSources([first, second]) { first.stamp &+ second.stamp }, by: isSame,
            capture: Self.capture(first, second, by: transform), read: { (first.state, second.state) },
            { transform($0.0, $0.1) })
    }

    /// Makes a view of two stores that announces what is not equal to the value before.
    ///
    /// - Parameters:
    ///   - first: One store.
    ///   - second: The other.
    ///   - transform: Makes the value from the states. Called on any thread, with no lock held.
    /// - Complexity: O(1), and one call of `transform`.
    @inlinable
    public convenience init<First, Second>(
        _ first: FluxStore<First>, _ second: FluxStore<Second>,
        transform: @escaping @Sendable (First, Second) -> State
    ) where State: Equatable {
        self.init(first, second, by: { $0 == $1 }, transform)
    }

    /// Makes a view of three stores, compared by a function of yours.
    ///
    /// - Parameters:
    ///   - first: One store.
    ///   - second: Another.
    ///   - third: The last.
    ///   - isSame: Whether two values are as good as equal.
    ///   - transform: Makes the value from the states. Called on any thread, with no lock held.
    /// - Complexity: O(1), and one call of `transform`.
    @inlinable
    public convenience init<First, Second, Third>(
        _ first: FluxStore<First>, _ second: FluxStore<Second>, _ third: FluxStore<Third>,
        by isSame: @escaping @Sendable (State, State) -> Bool,
        _ transform: @escaping @Sendable (First, Second, Third) -> State
    ) {
        self.init(
            FluxViewSources([first, second, third]) { first.stamp &+ second.stamp &+ third.stamp }, by: isSame,
            capture: Self.capture(first, second, third, by: transform),
            read: { (first.state, second.state, third.state) }, { transform($0.0, $0.1, $0.2) })
    }

    /// Makes a view of three stores that announces what is not equal to the value before.
    ///
    /// - Parameters:
    ///   - first: One store.
    ///   - second: Another.
    ///   - third: The last.
    ///   - transform: Makes the value from the states. Called on any thread, with no lock held.
    /// - Complexity: O(1), and one call of `transform`.
    @inlinable
    public convenience init<First, Second, Third>(
        _ first: FluxStore<First>, _ second: FluxStore<Second>, _ third: FluxStore<Third>,
        transform: @escaping @Sendable (First, Second, Third) -> State
    ) where State: Equatable {
        self.init(first, second, third, by: { $0 == $1 }, transform)
    }
}
