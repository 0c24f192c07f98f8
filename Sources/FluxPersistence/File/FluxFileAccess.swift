#if canImport(FluxCore)
    import FluxCore
#endif

/// The file of a ``FluxFile``: how it is read and written, and what happens to one that cannot be read.
///
/// It is used only on the queue of the ``FluxFile``, one call at a time.
nonisolated struct FluxFileAccess<State: Sendable>: ~Copyable, Sendable {
    let calls: FluxFileCalls
    let version: Int
    let encode: @Sendable (State) throws -> [UInt8]
    let decode: @Sendable ([UInt8]) throws -> State
    let migrate: (@Sendable (_ version: Int, _ bytes: [UInt8]) throws -> State)?
    private let known = FluxLock(FluxFileKnown.nothing)

    // MARK: - Reading

    func read(for load: FluxCancellationFlag) throws -> State? {
        // The load may have waited long for its turn. Once it is void, no file may be moved.
        if load.isVoid { throw _Concurrency.CancellationError() }
        try calls.checkPath()
        let found = try readStored(for: load)
        try calls.checkFolder(isFirst: found == nil)
        // The writer may have been stopped after it renamed the file and before it synced the directory. A loaded state
        // counts as saved.
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
        guard case (var identity, let bytes)? = file else { return nil }
        identity.head = Array(bytes.prefix(FluxFileFormat.headSize))
        do {
            return (try state(of: bytes), identity)
        } catch var error {
            // Once the load was given up on, no caller would learn the file's new name.
            if !error.isUnreadable || load.isVoid { throw error }
            let kept = Swift.Result { () throws(FluxFileError) in try keepAside(identity, for: load) }
            switch kept {
            case .success(nil) where rounds > 0: return try readStored(for: load, rounds: rounds - 1)
            case .success(let name): error.keptAt = name
            // The caller has to learn what is wrong with the file, whatever prevented it from being renamed.
            case .failure(let obstacle): error.obstacle = obstacle.explanation
            }
            throw error
        }
    }

    /// Renames a file that a load could not read and returns the new name; nil: another file or none is in its place by
    /// now, or the load is void.
    private func keepAside(
        _ read: FluxFileCalls.Identity, for load: FluxCancellationFlag
    ) throws(FluxFileError) -> String? {
        var name: String?
        do throws(FluxFileError) {
            // The lock of the new file keeps other saves out, so only the file that was read is renamed.
            try writeNew { _ throws(FluxFileError) in
                if !load.isVoid, try look() == read {
                    let kept = try keepAside(read)
                    name = kept
                    if load.isVoid {
                        // The load was given up on meanwhile: no caller would learn the name.
                        try calls.renameFile(kept, to: calls.path)
                    } else {
                        known.withLock { $0 = .file(nil) }
                    }
                }
                // If this fails, the next save removes the new file.
                try? calls.unlinkFile(calls.newPath)
            }
        } catch {
            // Once the file is renamed, no other failure matters.
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

    /// Writes the state to a new file beside the old one, and then renames the new file.
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

    /// Runs a closure on a new file that is locked, so that no other save proceeds until it has been renamed.
    private func writeNew(_ body: (Int32) throws(FluxFileError) -> Void) throws(FluxFileError) {
        let name = calls.newPath
        // Each round that did not end here has waited for another save. The limit is for file systems that may have a
        // name that is neither free nor there: it must not be tried forever.
        for _ in 0..<1_000 {
            let isWritten = try calls.withFile(name, for: .creating) { descriptor throws(FluxFileError) in
                do throws(FluxFileError) {
                    // Before it was locked, another save may have removed it as the remains of a crash.
                    let isInPlace = try calls.lockFile(descriptor, at: name)
                    if isInPlace { try body(descriptor) }
                    return isInPlace
                } catch {
                    try? calls.unlinkFile(name)
                    throw error
                }
            }
            if isWritten == true { return }
            guard isWritten == nil else { continue }
            // The remains of a crash are removed, once no save is writing to them.
            _ = try calls.withFile(name, for: .writing) { descriptor throws(FluxFileError) in
                if try calls.lockFile(descriptor, at: name) { try calls.unlinkFile(name) }
            }
        }
        throw FluxFileError.isThere(calls.path, at: name)
    }

    /// Ensures that a file at the path may be overwritten.
    private func makeWay() throws(FluxFileError) {
        guard let found = try look() else {
            // An old file may have been renamed: a loss of power might keep the new file, but lose that renaming.
            try syncDirectory()
            return
        }
        if case .file(let last) = known.withLock({ $0.valid }) {
            if last != found { throw FluxFileError(calls.path, .changedByAnother) }
            return
        }
        // The file was never read here, or not completely. Unless it is of a newer version, it makes way and is kept.
        let file = try calls.withFile(calls.path, for: .reading) { (try? calls.readFile($0)) ?? [] }
        if let file, let (stored, _) = try? FluxFileFormat.parse(file, at: calls.path), stored > version {
            throw FluxFileError(calls.path, .newer(version: stored))
        }
        try keepAsWell(found)
    }

    // MARK: - Support

    /// Renames a file; ignores an error if the file was renamed after all: a server's reply was lost, or a signal came
    /// late.
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

    /// Returns the identity of the file at the path; nil: there is none.
    private func place() throws(FluxFileError) -> FluxFileCalls.Identity? {
        let found = try calls.identity(at: calls.path)
        if found?.isFile == false { throw FluxFileError(calls.path, .notAFile) }
        return found
    }

    /// Returns the identity of the file at the path, with its head; nil: there is none, or it was removed meanwhile.
    private func look() throws(FluxFileError) -> FluxFileCalls.Identity? {
        guard var found = try place() else { return nil }
        return try calls.withFile(calls.path, for: .reading) { descriptor throws(FluxFileError) in
            found.head = try calls.readFile(descriptor, upTo: FluxFileFormat.headSize)
            return found
        }
    }

    /// Gives the file a second, free name: if the program ends before the new file is in place, the old one still is.
    private func keepAsWell(_ found: FluxFileCalls.Identity) throws(FluxFileError) {
        do {
            _ = try freeName { name throws(FluxFileError) in
                // An earlier attempt may have created the second name and then failed.
                if try calls.linkFile(calls.path, to: name) { return true }
                return try calls.identity(at: name)?.number == found.number
            }
            // Before the new file takes its place: a loss of power might keep the new file, but lose the second name.
            try syncDirectory()
            known.withLock { $0 = .file(found) }
        } catch {
            // Not every file system has hard links.
            if !error.isRefused { throw error }
            _ = try keepAside(found)
            known.withLock { $0 = .file(nil) }
            try syncDirectory()
        }
    }

    /// Renames the file to a free name and returns that; no other save takes one while the new file is locked.
    ///
    /// The renaming is synced before the next file takes the place. Until then, a loss of power can bring the old name
    /// back.
    private func keepAside(_ found: FluxFileCalls.Identity) throws(FluxFileError) -> String {
        let name = try freeName { name throws(FluxFileError) in try calls.identity(at: name) == nil }
        try rename(calls.path, to: name, found)
        return name
    }

    /// Returns the first name for a kept file that `take` accepts.
    private func freeName(_ take: (String) throws(FluxFileError) -> Bool) throws(FluxFileError) -> String {
        var (number, name) = (1, calls.path + FluxFileCalls.keptEnding)
        while try !take(name) {
            number += 1
            name = calls.path + FluxFileCalls.keptEnding + "-\(number)"
        }
        return name
    }

    /// Syncs the directory, if the system allows it, so that a loss of power does not undo a renaming in it.
    ///
    /// A directory that can be written but not read, or whose file system syncs no directories, refuses each time. A
    /// renaming in it counts nevertheless, or no save would ever succeed.
    private func syncDirectory() throws(FluxFileError) {
        do {
            _ = try calls.withFile(calls.folder, for: .directory, calls.syncFile)
        } catch {
            if !error.isRefused { throw error }
        }
    }
}

/// The last known file at the path of a ``FluxFile``, which decides whether a save may overwrite the file there.
nonisolated enum FluxFileKnown: Sendable {
    /// The file was neither read nor written here: if there is one, it is kept under another name.
    case nothing
    /// The file as it was last read or written here; nil: there was none, and one that is there now is another
    /// writer's.
    case file(FluxFileCalls.Identity?)
    /// The file that a load has found; once the load is void, `before` counts.
    indirect case found(FluxFileCalls.Identity?, by: FluxCancellationFlag, before: FluxFileKnown)

    /// The case that counts now.
    var valid: FluxFileKnown {
        guard case .found(let file, let load, let before) = self else { return self }
        return load.isVoid ? before : .file(file)
    }

    /// What was known before a load, and before the earlier loads that are part of the same whole.
    func before(_ load: FluxCancellationFlag) -> FluxFileKnown {
        guard case .found(_, let earlier, let before) = self, earlier.isPart(with: load) else { return valid }
        return before
    }
}
