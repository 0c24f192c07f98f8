#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Android)
    import Android
#endif

/// How a ``FluxFile`` reads, and what it does with a file that it cannot read.
nonisolated extension FluxFile {
    func read() throws -> (State, FluxFileCalls.Identity)? {
        try calls.checkPath()
        guard let found = try calls.identity(at: calls.path) else { return nil }
        if !found.isFile { throw FluxFileError(calls.path, .notAFile) }
        let descriptor = try calls.openFile(calls.path, O_RDONLY)
        let (identity, bytes): (FluxFileCalls.Identity, [UInt8])
        do {
            identity = try calls.identity(of: descriptor)
            bytes = try calls.readFile(descriptor)
        } catch {
            try? calls.closeFile(descriptor)
            throw error
        }
        try calls.closeFile(descriptor)
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
        let (stored, content): (Int, [UInt8])
        do {
            (stored, content) = try FluxFileFormat.parse(file)
        } catch {
            throw FluxFileError(calls.path, error.reason)
        }
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
                try calls.closeFile(calls.openFile(name, O_WRONLY | O_CREAT | O_EXCL))
            } catch {
                if case .system(_, EEXIST) = error.reason { continue }
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
