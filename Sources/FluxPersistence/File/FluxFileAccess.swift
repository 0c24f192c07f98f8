#if canImport(FluxCore)
    import FluxCore
#endif

/// The file of a ``FluxFile``: how it is read and written, and what becomes of one that cannot be read.
///
/// It is used on the queue of the ``FluxFile`` alone, one call at a time.
nonisolated struct FluxFileAccess<State: Sendable>: ~Copyable, Sendable {
    let calls: FluxFileCalls
    let version: Int
    let encode: @Sendable (State) throws -> [UInt8]
    let decode: @Sendable ([UInt8]) throws -> State
    let migrate: (@Sendable (_ version: Int, _ bytes: [UInt8]) throws -> State)?
    private let known = FluxLock(FluxFileKnown.nothing)

    // MARK: - Reading

    func read(for load: FluxCancellationFlag) throws -> State? {
        // It may have waited long for its turn: nothing is to be moved any more.
        if load.isVoid { throw _Concurrency.CancellationError() }
        try calls.checkPath()
        let found = try readStored(for: load)
        try calls.checkFolder(isFirst: found == nil)
        // Whoever renamed it may have been stopped before it was synced, and what is loaded counts as saved.
        if found != nil { try syncDirectory() }
        known.withLock { $0 = .found(found?.identity, by: load, before: $0.before(load)) }
        return found?.state
    }

    private func readStored(
        for load: FluxCancellationFlag, rounds: Int = 100
    ) throws(FluxFileError) -> (state: State, identity: FluxFileCalls.Identity)? {
        guard try place() != nil else { return nil }
        let file = try calls.withFile(calls.path, for: .reading) { descriptor throws(FluxFileError) in
            (try calls.identity(of: descriptor), try calls.readFile(descriptor))
        }
        guard let (status, bytes) = file else { return nil }
        var identity = status
        identity.head = Array(bytes.prefix(FluxFileFormat.headSize))
        do {
            return (try state(of: bytes), identity)
        } catch var error {
            // Once the load was given up on nobody would hear of the name that the file gets.
            if !error.isUnreadable || load.isVoid { throw error }
            let kept = Swift.Result { () throws(FluxFileError) in try keepAside(identity, for: load) }
            switch kept {
            case .success(nil) where rounds > 0: return try readStored(for: load, rounds: rounds - 1)
            case .success(let name): error.keptAt = name
            // What is wrong with the file is what has to be known, whatever is in the way of moving it.
            case .failure(let obstacle): error.obstacle = obstacle.explanation
            }
            throw error
        }
    }

    /// Renames what a load could not read; nil: something else is in its place by now, or nothing.
    private func keepAside(
        _ read: FluxFileCalls.Identity, for load: FluxCancellationFlag
    ) throws(FluxFileError) -> String? {
        var name: String?
        do throws(FluxFileError) {
            // While nobody saves: nothing that was not read is renamed.
            try writeNew { _ throws(FluxFileError) in
                if !load.isVoid, try look() == read {
                    let kept = try keepAside(read)
                    name = kept
                    if load.isVoid {
                        // It was given up meanwhile: nobody would hear of the name.
                        try calls.renameFile(kept, to: calls.path)
                    } else {
                        known.withLock { $0 = .file(nil) }
                    }
                }
                // What is left of it the next save removes.
                try? calls.unlinkFile(calls.newPath)
            }
        } catch {
            // Once it is renamed, no other failure matters.
            if name == nil { throw error }
        }
        return name
    }

    private func state(of file: [UInt8]) throws(FluxFileError) -> State {
        let (stored, content) = try FluxFileFormat.parse(file, at: calls.path)
        if stored > version { throw FluxFileError(calls.path, .newer(version: stored)) }
        if stored == version { return try coding { try decode(content) } }
        guard let migrate else { throw FluxFileError(calls.path, .noMigration(version: stored)) }
        return try coding { try migrate(stored, content) }
    }

    // MARK: - Writing

    /// Writes the state beside the old file first, and then puts it in its place.
    func write(_ state: State) throws {
        try calls.checkPath()
        let content = try coding { try encode(state) }
        try writeNew { descriptor throws(FluxFileError) in
            let head = FluxFileFormat.head(version: version, content: content)
            try calls.writeFile(descriptor, head)
            try calls.writeFile(descriptor, content)
            try calls.syncFile(descriptor)
            try makeWay()
            var identity = try calls.identity(of: descriptor)
            identity.head = head
            try rename(calls.newPath, to: calls.path, identity)
            known.withLock { $0 = .file(identity) }
        }
        try syncDirectory()
    }

    /// Runs a closure on a new file that is locked, so that nobody else writes in the same way until it has been renamed.
    private func writeNew(_ body: (Int32) throws(FluxFileError) -> Void) throws(FluxFileError) {
        let name = calls.newPath
        // Each round that did not end here waited for another who saved. A name that is neither free nor there, as some
        // file systems may have one, must not be tried for good.
        for _ in 0..<1_000 {
            let isWritten = try calls.withFile(name, for: .creating) { descriptor throws(FluxFileError) in
                do throws(FluxFileError) {
                    // By the time it is locked somebody may have taken it for what a crash has left behind.
                    let isInPlace = try lock(descriptor, at: name)
                    if isInPlace { try body(descriptor) }
                    return isInPlace
                } catch {
                    try? calls.unlinkFile(name)
                    throw error
                }
            }
            if isWritten == true { return }
            guard isWritten == nil else { continue }
            // What a crash has left behind is removed, once nobody writes it any more.
            _ = try calls.withFile(name, for: .writing) { descriptor throws(FluxFileError) in
                if try lock(descriptor, at: name) { try calls.unlinkFile(name) }
            }
        }
        throw FluxFileError.isThere(calls.path, at: name)
    }

    /// Locks a file that was opened by a name; false: it has been renamed or removed meanwhile.
    private func lock(_ descriptor: Int32, at name: String) throws(FluxFileError) -> Bool {
        try calls.lockFile(descriptor)
        return try calls.identity(at: name)?.number == calls.identity(of: descriptor).number
    }

    /// Sees that what is in the file's place may be overwritten.
    private func makeWay() throws(FluxFileError) {
        guard let found = try look() else {
            // What was there may have been kept aside: a loss of power might keep the new file, and not this.
            try syncDirectory()
            return
        }
        if case .file(let last) = known.withLock({ $0.valid }) {
            if last != found { throw FluxFileError(calls.path, .changedByAnother) }
            return
        }
        // Never read here, or not to the end. Unless it is of a newer version it makes way, and is kept.
        let file = try calls.withFile(calls.path, for: .reading) { (try? calls.readFile($0)) ?? [] }
        if let file, let (stored, _) = try? FluxFileFormat.parse(file, at: calls.path), stored > version {
            throw FluxFileError(calls.path, .newer(version: stored))
        }
        try keepAsWell(found)
    }

    // MARK: - Support

    /// Renames a file, also where that is said to have failed and was done: the answer of a server was lost, or a signal came after it.
    private func rename(_ from: String, to: String, _ file: FluxFileCalls.Identity) throws(FluxFileError) {
        do throws(FluxFileError) {
            try calls.renameFile(from, to: to)
        } catch {
            if try calls.identity(at: to)?.number != file.number { throw error }
        }
    }

    private func coding<Value>(_ body: () throws -> Value) throws(FluxFileError) -> Value {
        do { return try body() } catch { throw FluxFileError(calls.path, .coding(error)) }
    }

    /// What is in the file's place; nil: nothing.
    private func place() throws(FluxFileError) -> FluxFileCalls.Identity? {
        let found = try calls.identity(at: calls.path)
        if found?.isFile == false { throw FluxFileError(calls.path, .notAFile) }
        return found
    }

    /// What is in the file's place, with its head; nil: nothing, or it went while it was looked at.
    private func look() throws(FluxFileError) -> FluxFileCalls.Identity? {
        guard var found = try place() else { return nil }
        let head = try calls.withFile(calls.path, for: .reading) { descriptor throws(FluxFileError) in
            try calls.readFile(descriptor, upTo: FluxFileFormat.headSize)
        }
        guard let head else { return nil }
        found.head = head
        return found
    }

    /// Gives the file a second name that is free: should the program end before the new one is there, the old one still is.
    private func keepAsWell(_ found: FluxFileCalls.Identity) throws(FluxFileError) {
        do {
            _ = try freeName { name throws(FluxFileError) in
                // An attempt that failed after this has made it already.
                if try calls.linkFile(calls.path, to: name) { return true }
                return try calls.identity(at: name)?.number == found.number
            }
            // Before the new file takes the place: a loss of power might keep that, and not this.
            try syncDirectory()
            known.withLock { $0 = .file(found) }
        } catch {
            // Not every file system has second names.
            if !error.isRefused { throw error }
            _ = try keepAside(found)
            known.withLock { $0 = .file(nil) }
            try syncDirectory()
        }
    }

    /// Renames the file to a name that is free, and returns that; nobody else takes one while the new file is locked.
    ///
    /// A loss of power can bring the old name back, until that is synced before the next file takes the place.
    private func keepAside(_ found: FluxFileCalls.Identity) throws(FluxFileError) -> String {
        let name = try freeName { name throws(FluxFileError) in try calls.identity(at: name) == nil }
        try rename(calls.path, to: name, found)
        return name
    }

    /// Returns the first name for what is kept that can be taken.
    private func freeName(_ take: (String) throws(FluxFileError) -> Bool) throws(FluxFileError) -> String {
        var (number, name) = (1, calls.path + FluxFileCalls.keptEnding)
        while try !take(name) {
            number += 1
            name = calls.path + FluxFileCalls.keptEnding + "-\(number)"
        }
        return name
    }

    /// Has the directory remember what was renamed in it, if that can be asked of it.
    ///
    /// One that may be written but not read, or whose file system syncs no directories, refuses that each time: what was
    /// renamed in it counts all the same, or no save would ever end.
    private func syncDirectory() throws(FluxFileError) {
        do {
            _ = try calls.withFile(calls.folder, for: .directory, calls.syncFile)
        } catch {
            if !error.isRefused { throw error }
        }
    }
}

/// What a ``FluxFile`` knows of the file in its place, and so may overwrite.
nonisolated enum FluxFileKnown: Sendable {
    /// It was neither read nor written here: what is there is kept aside.
    case nothing
    /// The file as it was last read or written here; nil: there was none, and what is there now is another's.
    case file(FluxFileCalls.Identity?)
    /// What a load has found; once that is void, what was known before it.
    indirect case found(FluxFileCalls.Identity?, by: FluxCancellationFlag, before: FluxFileKnown)

    /// What counts now.
    var valid: FluxFileKnown {
        guard case .found(let file, let load, let before) = self else { return self }
        return load.isVoid ? before : .file(file)
    }

    /// What was known before a load, and before all that is void with it.
    func before(_ load: FluxCancellationFlag) -> FluxFileKnown {
        guard case .found(_, let earlier, let before) = self, earlier.isPart(with: load) else { return valid }
        return before
    }
}
