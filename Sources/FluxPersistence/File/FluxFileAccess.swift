#if canImport(FluxCore)
    import FluxCore
#endif

/// How a ``FluxFile`` reads, and what it does with a file that it cannot read.
nonisolated extension FluxFile {
    func read() throws -> (State, FluxFileCalls.Identity)? {
        try calls.checkPath()
        guard let found = try calls.identity(at: calls.path) else { return nil }
        if !found.isFile { throw FluxFileError(calls.path, .notAFile) }
        let (identity, bytes) = try calls.withFile(calls.path, for: .reading) { descriptor throws(FluxFileError) in
            (try calls.identity(of: descriptor), try calls.readFile(descriptor))
        }
        do {
            return (try state(of: bytes), identity)
        } catch var error {
            if error.isUnreadable {
                // What is wrong with the file is what has to be known, whatever is in the way of moving it.
                do { error.keptAt = try keepAside() } catch let obstacle { error.obstacle = obstacle.explanation }
            }
            throw error
        }
    }

    private func state(of file: [UInt8]) throws(FluxFileError) -> State {
        let (stored, content) = try FluxFileFormat.parse(file, at: calls.path)
        if stored > version { throw FluxFileError(calls.path, .newer(version: stored)) }
        do {
            if stored == version { return try decode(content) }
            if let migrate { return try migrate(stored, content) }
        } catch {
            throw FluxFileError(calls.path, .coding(error))
        }
        throw FluxFileError(calls.path, .noMigration(version: stored))
    }

    /// Renames the file to a name that is free, and returns that.
    func keepAside() throws(FluxFileError) -> String {
        var number = 1
        while true {
            let name = calls.path + ".unreadable" + (number == 1 ? "" : "-\(number)")
            number += 1
            do {
                // Made first, so that of two who look for a free name only one gets it.
                try calls.withFile(name, for: .creating) { _ in }
            } catch {
                if error.isThereAlready { continue }
                throw error
            }
            do {
                try calls.renameFile(calls.path, to: name)
            } catch {
                try? calls.unlinkFile(name)
                throw error
            }
            known.withLock { $0 = .absence }
            // Renamed is renamed: a loss of power could only bring the old name back.
            try? syncDirectory()
            return name
        }
    }
}

/// How a ``FluxFile`` writes: beside the old file first, and then in its place.
nonisolated extension FluxFile {
    func write(_ state: State) throws {
        try calls.checkPath()
        let content: [UInt8]
        do {
            content = try encode(state)
        } catch {
            throw FluxFileError(calls.path, .coding(error))
        }
        let name = calls.path + ".new"
        let descriptor = try openNew(name)
        var isRenamed = false
        do {
            // From here on, and until it is closed, nobody else writes the file in the same way.
            try calls.writeFile(descriptor, FluxFileFormat.head(version: version, content: content))
            try calls.writeFile(descriptor, content)
            try calls.syncFile(descriptor)
            try makeWay()
            let identity = try calls.identity(of: descriptor)
            try calls.renameFile(name, to: calls.path)
            isRenamed = true
            known.withLock { $0 = .file(identity) }
            try syncDirectory()
        } catch {
            if !isRenamed { try? calls.unlinkFile(name) }
            try? calls.closeFile(descriptor)
            throw error
        }
        try calls.closeFile(descriptor)
    }

    /// Makes the new file and locks it, once nobody else has one; one that a crash has left behind is removed.
    private func openNew(_ name: String) throws(FluxFileError) -> Int32 {
        // Each round that did not end here waited for another who saved. A name that is neither free nor there, as some
        // file systems may have one, must not be tried for good.
        var rounds = 0
        while true {
            rounds += 1
            var isNew = true
            var descriptor: Int32
            do {
                descriptor = try calls.openFile(name, for: .creating)
            } catch {
                guard error.isThereAlready, rounds <= 1_000 else { throw error }
                isNew = false
                do {
                    descriptor = try calls.openFile(name, for: .writing)
                } catch {
                    if error.isMissing { continue }
                    throw error
                }
            }
            do {
                try calls.lockFile(descriptor)
                // By the time it is locked it may have been renamed or removed by the one who had the lock before.
                let isInPlace = try calls.identity(at: name)?.number == calls.identity(of: descriptor).number
                if isInPlace && isNew { return descriptor }
                if isInPlace { try calls.unlinkFile(name) }
            } catch {
                if isNew { try? calls.unlinkFile(name) }
                try? calls.closeFile(descriptor)
                throw error
            }
            try calls.closeFile(descriptor)
        }
    }

    /// Sees that what is in the file's place may be overwritten.
    private func makeWay() throws(FluxFileError) {
        guard let found = try calls.identity(at: calls.path) else { return }
        if !found.isFile { throw FluxFileError(calls.path, .notAFile) }
        switch known.withLock({ $0 }).valid {
        case .file(found): return
        case .file, .absence: throw FluxFileError(calls.path, .changedByAnother)
        case .nothing, .found: break
        }
        // Never read here, or not to the end. Unless it is of a newer version it makes way, and is kept.
        let head = try calls.withFile(calls.path, for: .reading) { try? calls.readFile($0) }
        if let head, let (stored, _) = try? FluxFileFormat.parse(head, at: calls.path), stored > version {
            throw FluxFileError(calls.path, .newer(version: stored))
        }
        _ = try keepAside()
    }

    /// Has the directory remember what was renamed in it, if that can be asked of it.
    ///
    /// One that may be written but not read, or whose file system syncs no directories, refuses that each time: what was
    /// renamed in it counts all the same, or no save would ever end.
    func syncDirectory() throws(FluxFileError) {
        let end = calls.path.utf8.lastIndex(of: UInt8(ascii: "/"))
        let directory = end.map { $0 == calls.path.startIndex ? "/" : String(calls.path[..<$0]) } ?? "."
        do {
            try calls.withFile(directory, for: .directory) { descriptor throws(FluxFileError) in
                try calls.syncFile(descriptor)
            }
        } catch {
            if !error.isRefused { throw error }
        }
    }
}
