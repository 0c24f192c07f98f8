/// A load that a store may give up on: once it has, what the load has found counts as not found.
///
/// The load's task carries it, so that it also reaches a ``FluxFile`` behind a persistence of one's own.
nonisolated final class FluxLoadMark: Sendable {
    /// That of the load whose task, or a task of which, is running.
    @TaskLocal static var current: FluxLoadMark?

    private let lock = FluxLock(false)
    /// The load that this one is a part of, if any.
    private let whole: FluxLoadMark?

    init(partOf whole: FluxLoadMark? = nil) {
        self.whole = whole
    }

    var isVoid: Bool { lock.withLock { $0 } || whole?.isVoid ?? false }

    /// Voids the load for good.
    func void() {
        lock.withLock { $0 = true }
    }
}

/// What a ``FluxFile`` knows of the file in its place, and so may overwrite.
nonisolated enum FluxFileKnown: Sendable {
    /// It was neither read nor written here: what is there is kept aside.
    case nothing
    /// There was none when it was last looked for: what is there now is another's.
    case absence
    /// The file as it was last read or written here.
    case file(FluxFileCalls.Identity)
    /// What a load has found; once that is void, what was known before.
    indirect case found(FluxFileKnown, by: FluxLoadMark, before: FluxFileKnown)

    /// What counts now.
    var valid: FluxFileKnown {
        guard case .found(let known, let mark, let before) = self else { return self }
        return mark.isVoid ? before : known
    }
}
