#if canImport(FluxCore)
    import FluxCore
#endif

#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Android)
    import Android
#endif

/// What a ``FluxFile`` asks of the system, each with the path in its error.
nonisolated struct FluxFileCalls: Sendable {
    enum Call: String, Sendable, CaseIterable {
        case stat, access, open, lock = "flock", read, write, sync = "fsync", close, link, rename, unlink
    }

    /// What a file is opened for.
    struct Purpose {
        let flags: Int32
        /// The code that says that it is there, or not there, other than it has to be.
        let obstacle: Int32

        static let reading = Purpose(flags: O_RDONLY | O_NOFOLLOW, obstacle: ENOENT)
        static let writing = Purpose(flags: O_WRONLY | O_NOFOLLOW, obstacle: ENOENT)
        /// For writing too; there must be none yet.
        static let creating = Purpose(flags: O_WRONLY | O_NOFOLLOW | O_CREAT | O_EXCL, obstacle: EEXIST)
        /// For syncing; as the one of them it follows a symbolic link.
        static let directory = Purpose(flags: O_RDONLY, obstacle: ENOENT)
    }

    /// What tells one file from another, and from its own later content.
    struct Identity: Equatable, Sendable {
        /// That of the file, which tells it from others that are there at the same time.
        let number: UInt64
        let size: Int64
        let modified: Swift.Duration
        let isFile: Bool
        /// The head of its content, for who has read that: another file of the same size may come within the same tick of the clock.
        var head: [UInt8] = []

        init(_ status: stat) {
            number = UInt64(truncatingIfNeeded: status.st_ino)
            size = Int64(status.st_size)
            #if canImport(Darwin)
                let time = status.st_mtimespec
            #else
                let time = status.st_mtim
            #endif
            modified = .seconds(Int64(time.tv_sec)) + .nanoseconds(Int64(time.tv_nsec))
            isFile = status.st_mode & S_IFMT == S_IFREG
        }

        // The numbers of the device and of the file are no part of it: those of a disk that is mounted again may be others, and on a FAT
        // a file has another after a while.
        static func == (one: Identity, other: Identity) -> Bool {
            (one.size, one.modified, one.isFile, one.head) == (other.size, other.modified, other.isFile, other.head)
        }
    }

    let path: String
    var system: any FluxFileSystem = FluxOwnSystem()

    private var slash: String.Index? { path.utf8.lastIndex(of: UInt8(ascii: "/")) }

    /// The folder of the file.
    var folder: String { slash.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "." }

    /// Where a save writes before it renames: a path that no ``FluxFile`` has.
    var newPath: String { path + Self.newEnding }
    static let newEnding = ".new"
    /// What the name of a file ends with that could not be read; of those after the first with a number behind it.
    static let keptEnding = ".unreadable"

    /// What tells the path from all others, however it is written; nil: its folder is not to be found.
    var place: String? {
        var status = stat()
        if stat(folder, &status) != 0 { return nil }
        let name = slash.map { path[path.utf8.index(after: $0)...] } ?? path[...]
        #if canImport(Darwin)
            // One name to Swift is one to the disk, in however many ways a letter can be written.
            return "FluxFile \(status.st_dev) \(status.st_ino) \(name)"
        #else
            return "FluxFile \(status.st_dev) \(status.st_ino) \(Array(name.utf8))"
        #endif
    }

    // MARK: - By path

    /// Sees that the path is one: the system would end it at a zero byte, and take what comes before; and where the new file of another
    /// goes, that would take this one for what a crash has left behind.
    func checkPath() throws(FluxFileError) {
        // Byte by byte: a character can take in the dot. And some disks take large letters for small ones.
        let (bytes, ending) = (path.lowercased().utf8, Self.newEnding.utf8)
        if bytes.isEmpty || bytes.contains(0) || bytes.suffix(ending.count).elementsEqual(ending) {
            throw FluxFileError(path, .notAPath)
        }
    }

    /// Sees that new files may be made in the folder, and that nothing is in the place of one but what a save may remove; where there is
    /// no file yet, also that its name leaves room for those that it may need.
    func checkFolder(isFirst: Bool) throws(FluxFileError) {
        try perform(.access, at: folder) { system.mayWrite(in: folder) }
        if try identity(at: newPath)?.isFile == false { throw FluxFileError(path, .notAFile, at: newPath) }
        // A save removes what a crash has left there, and has to open it for that.
        _ = try withFile(newPath, for: .writing) { _ in }
        if isFirst { _ = try identity(at: path + Self.keptEnding + "-999") }
    }

    /// What is at a path; nil: nothing.
    func identity(at path: String) throws(FluxFileError) -> Identity? {
        var status = stat()
        let count = try perform(.stat, at: path) {
            system.lookUp(path, &status) == 0 ? 1 : errno == ENOENT ? 0 : -1
        }
        return count == 0 ? nil : Identity(status)
    }

    /// Runs a closure on a file that is open for as long as that takes; a symbolic link is refused.
    ///
    /// - Returns: What the closure returns; nil: the file is not there, or to be created, and there already.
    func withFile<Value>(
        _ path: String, for purpose: Purpose, _ body: (Int32) throws(FluxFileError) -> Value
    ) throws(FluxFileError) -> Value? {
        let flags = purpose.flags | O_CLOEXEC | O_NONBLOCK
        let opened = Swift.Result { () throws(FluxFileError) in
            try perform(.open, at: path) { system.openFile(path, flags) }
        }
        if case .failure(let error) = opened, error.code == purpose.obstacle { return nil }
        let descriptor = Int32(try opened.get())
        let result = Swift.Result { () throws(FluxFileError) in try body(descriptor) }
        let closed = Swift.Result { () throws(FluxFileError) in try closeFile(descriptor) }
        let value = try result.get()
        try closed.get()
        return value
    }

    /// Gives a file a second name; false: that is taken.
    func linkFile(_ from: String, to: String) throws(FluxFileError) -> Bool {
        try perform(.link, at: to) { system.linkFile(from, to: to) == 0 ? 1 : errno == EEXIST ? 0 : -1 } == 1
    }

    func renameFile(_ from: String, to: String) throws(FluxFileError) {
        try perform(.rename, at: from) { system.renameFile(from, to: to) }
    }

    func unlinkFile(_ path: String) throws(FluxFileError) {
        try perform(.unlink, at: path) { system.unlinkFile(path) }
    }

    // MARK: - By descriptor

    func identity(of descriptor: Int32) throws(FluxFileError) -> Identity {
        var status = stat()
        try perform(.stat) { system.lookUp(descriptor, &status) }
        return Identity(status)
    }

    /// Waits until no other process and no other descriptor has the lock of the file.
    func lockFile(_ descriptor: Int32) throws(FluxFileError) {
        try perform(.lock) { system.lockFile(descriptor) }
    }

    /// Reads a file, no further than its head says that it goes: what is none may be larger than the memory.
    func readFile(_ descriptor: Int32, upTo limit: Int = .max) throws(FluxFileError) -> [UInt8] {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: Swift.min(limit, 1 << 16))
        while bytes.count < limit && FluxFileFormat.goesOn(bytes) {
            let room = Swift.min(buffer.count, limit - bytes.count)
            let count = try perform(.read) {
                buffer.withUnsafeMutableBytes { system.readFile(descriptor, .init(rebasing: $0[..<room])) }
            }
            if count == 0 { break }
            bytes += buffer[..<count]
        }
        return bytes
    }

    func writeFile(_ descriptor: Int32, _ bytes: [UInt8]) throws(FluxFileError) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = try perform(.write) { rest.withUnsafeBytes { system.writeFile(descriptor, $0) } }
            // As a file system would say that takes nothing, and does not say why: it would be tried for good.
            if count == 0 { throw FluxFileError(path, .system(call: Call.write.rawValue, code: EIO)) }
            rest = rest.dropFirst(count)
        }
    }

    /// Returns when what was written is where a loss of power does not reach it.
    func syncFile(_ descriptor: Int32) throws(FluxFileError) {
        try perform(.sync) { system.syncFile(descriptor) }
    }

    private func closeFile(_ descriptor: Int32) throws(FluxFileError) {
        // Interrupted or not, the descriptor is gone, and all was synced before.
        try perform(.close) { system.closeFile(descriptor) == 0 || errno == EINTR ? 0 : -1 }
    }

    // MARK: - Support

    /// Makes a call until no signal interrupts it; returns what the system did.
    @discardableResult
    private func perform(
        _ call: Call, at place: String? = nil, _ body: () -> Int
    ) throws(FluxFileError) -> Int {
        var code: Int32
        repeat {
            let result = body()
            if result >= 0 { return result }
            code = errno
        } while code == EINTR
        throw FluxFileError(path, .system(call: call.rawValue, code: code), at: place)
    }
}

nonisolated extension FluxFileError {
    /// What the system says of a code.
    static func text(of code: Int32) -> String { String(cString: strerror(code)) }

    /// There is a file where none should be.
    static func isThere(_ path: String, at place: String) -> FluxFileError {
        FluxFileError(path, .system(call: "open", code: EEXIST), at: place)
    }

    var code: Int32? { if case .system(_, let code) = reason { code } else { nil } }

    /// Whether the system refuses it each time: it may not be done, or not there.
    var isRefused: Bool { [EACCES, EPERM, EINVAL, ENOTSUP, ENOSYS].contains(code) }

    /// Whether no later attempt can do better: the path cannot be had, or belongs to another writer or a newer version.
    ///
    /// A full disk, an error of a device and too many open files may pass; a missing folder, or missing rights, may not.
    public var isPermanent: Bool {
        switch reason {
        // The last is what a pipe or a socket in the way of the new file leads to.
        case .notAPath, .notAFile, .newer, .changedByAnother, .system("open", ENXIO): true
        // Where a file that was there is gone when it is to be renamed, somebody else was at it.
        case .system(let call, ENOENT): call == "open" || call == "access"
        case .system(_, let code):
            [EACCES, EPERM, EROFS, ENOTDIR, EISDIR, ELOOP, ENAMETOOLONG, ENOTSUP, ENOSYS].contains(code)
        case .empty, .foreign, .truncated, .damaged, .noMigration, .coding: false
        }
    }
}

nonisolated extension FluxPersistenceFailure {
    /// Writes a line to standard error: what a store does with a failure unless it is told otherwise.
    @Sendable
    static func print(_ failure: FluxPersistenceFailure) {
        var line = "FluxCore: \(failure)\n"
        line.withUTF8 { _ = write(2, $0.baseAddress, $0.count) }
    }
}
