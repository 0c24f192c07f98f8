#if canImport(FluxCore)
    import FluxCore
#endif
#if canImport(FluxPersistence)
    import FluxPersistence
#endif

/// Checks a persistence or a log of your own, with any test framework or none.
///
/// ```swift
/// @Test func conforms() async throws {
///     try await FluxConformance.check(states: [Todo(), Todo(titles: ["milk"])]) { try MyDatabase(path: path) }
/// }
/// ```
///
/// Each check starts with nothing stored. The checks of a persistence and of a log open the same storage again and
/// again, as a restarted program does, and release it before they open it again.
///
/// Thread safety: a namespace.
nonisolated public enum FluxConformance {
    /// The error for a check that failed.
    ///
    /// Thread safety: a value.
    public struct Failure: Swift.Error, CustomStringConvertible {
        /// One sentence that says what is wrong.
        public let description: String
    }

    // MARK: - A persistence

    /// Checks that a persistence keeps the state that was saved last, even after it is opened again.
    ///
    /// - Parameters:
    ///   - states: At least two different states; the longer and the more unusual they are, the better.
    ///   - make: Opens the storage, which is empty at the first call and must be the same at each call.
    /// - Throws: ``Failure``, or what the persistence throws.
    nonisolated(nonsending) public static func check<Persistence: FluxPersistence>(
        states: [Persistence.State],
        _ make: () async throws -> Persistence
    ) async throws where Persistence.State: Equatable {
        guard let last = states.last, let other = states.first(where: { $0 != last }) else {
            throw Failure(description: "the check needs at least two different states")
        }
        var place: String?
        try await with(make) { persistence in
            place = persistence.place
            try await expect("the state loaded before the first save", persistence.load(), nil)
            try await expect("the state loaded again before the first save", persistence.load(), nil)
            for state in states {
                try await persistence.save(state)
                try await expect("the state loaded after a save", persistence.load(), state)
            }
        }
        for (last, state) in zip(states.suffix(1) + states, states) {
            try await with(make) { persistence in
                try expect("the place of the same storage, opened again", persistence.place, place)
                try await expect("the state loaded when the storage is opened again", persistence.load(), last)
                try await persistence.save(state)
                try await persistence.save(last)
                try await expect("the state loaded after the loaded state was saved again", persistence.load(), last)
                try await persistence.save(state)
                try await persistence.save(state)
                try await expect("the state loaded after the same state was saved twice", persistence.load(), state)
            }
        }
        try await with(make) { try await $0.save(other) }
        // Twice, because loading must not remove anything.
        for _ in 0..<2 {
            try await with(make) { try await expect("the state loaded after a save without a load", $0.load(), other) }
        }
    }

    // MARK: - A log

    /// Checks that a log keeps the appended actions, in order and once, and the newest snapshot.
    ///
    /// The log may remove or keep the entries that a snapshot covers: a store skips them.
    ///
    /// - Parameters:
    ///   - initialState: The state that the first action is applied to.
    ///   - actions: At least four actions that lead to different states. They are repeated until more than 10,000 have
    ///     been applied, and the state after each is kept. If the state grows, one action should make it shorter.
    ///   - isSnapshotFirst: Whether to begin with a snapshot, as every store does. False begins like a store whose
    ///     first snapshot has failed. Check both.
    ///   - make: Opens the storage, which is empty at the first call and must be the same at each call.
    /// - Throws: ``Failure``, or what the log throws.
    nonisolated(nonsending) public static func check<Log: FluxLog>(
        initialState: Log.State,
        actions: [Log.State.Action],
        beginningWithSnapshot isSnapshotFirst: Bool = true,
        _ make: () async throws -> Log
    ) async throws where Log.State: Equatable {
        guard actions.count > 3 else { throw Failure(description: "the check needs at least four actions") }
        var model = FluxLogModel(initialState: initialState, actions: actions)

        try await with(make) { log in
            try await model.expect("when it is new", log.load())
            try await log.append([])
            try await model.expect("after an append of nothing", log.load())
            if isSnapshotFirst {
                _ = model.next(1)
                try await log.compact(model.snapshot(dropping: 0))
                try await model.expect("after a snapshot in a new log", log.load())
            }
            try await log.append(model.next(1))
            try await log.append([])
            try await model.expect("after the first append, and one of nothing", log.load())
            try await log.append(model.next(2))
            try await model.expect("after the second append", log.load())
        }
        try await with(make) { log in
            try await model.expect("when it is opened again", log.load())
            try await log.append(model.again(2))
            try await model.expect("after an append of nothing new", log.load())
            try await log.append(model.again(2) + model.next(1))
            try await model.expect("after an append that repeats two actions", log.load())
        }
        try await with(make) { log in
            try await model.expect("after that and opening it again", log.load())
            try await log.append(model.next(3))
            try await log.compact(model.snapshot(dropping: 2))
            try await model.expect("after a snapshot that leaves two actions", log.load())
            try await log.append(model.again(2))
            try await model.expect("after these were appended once more", log.load())
            try await log.compact(model.snapshot(dropping: 0))
            try await model.expect("after a snapshot of everything", log.load())
            try await log.compact(model.snapshot(dropping: 0))
            try await model.expect("after the same snapshot again", log.load())
            _ = model.next(1)
            try await log.compact(model.snapshot(dropping: 0))
            try await model.expect("after a snapshot that includes an action that was never appended", log.load())
        }
        try await with(make) { log in
            try await model.expect("after the snapshots and opening it again", log.load())
            try await log.append(model.next(2))
        }
        try await with(make) { log in
            try await model.expect("after an append to a snapshot alone and opening it again", log.load())
            _ = model.next(3)
            try await log.compact(model.snapshot(dropping: 0))
            try await model.expect("after a snapshot with actions that were never appended", log.load())
            try await log.append(model.again(2) + model.next(1))
        }
        try await with(make) { log in
            try await model.expect("after an append that repeats actions of the snapshot", log.load())
            // More than a store has between two snapshots by default.
            try await log.append(model.next(10_000))
            for _ in 0..<20 { try await log.append(model.next(7)) }
            try await model.expect("after many actions", log.load())
        }
        for _ in 0..<2 {
            try await with(make) { try await model.expect("after many actions and opening it again", $0.load()) }
        }
    }

    /// Opens a storage and releases it, so that a storage that may be open only once at a time passes too.
    nonisolated(nonsending) private static func with<Storage>(
        _ make: () async throws -> Storage, _ body: (Storage) async throws -> Void
    ) async throws {
        try await body(make())
    }

    static func expect<Value: Equatable>(_ what: String, _ actual: Value, _ expected: Value) throws {
        if actual == expected { return }
        throw Failure(description: differing(what, "\(actual)", "\(expected)"))
    }

    /// Shortens long texts to the part around the first difference, to keep the message readable.
    private static func differing(_ what: String, _ actual: String, _ expected: String) -> String {
        let start = Swift.max(0, zip(actual, expected).prefix { $0 == $1 }.count - 100)
        let texts = [actual, expected].map { text in
            text.count <= 500 ? text : (start > 0 ? "…" : "") + text.dropFirst(start).prefix(500) + "…"
        }
        return "\(what) is \(texts[0]), but should be \(texts[1])"
    }
}
