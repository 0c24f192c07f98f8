#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Android)
    import Android
#endif

/// The system calls of a ``FluxFile``, each with the path in its error.
nonisolated struct FluxFileCalls: Sendable {
    enum Call: String, Sendable, CaseIterable {
        case stat, access, open, lock = "flock", read, write, sync = "fsync", close, link, rename, unlink
    }

    /// The purpose that a file is opened for.
    struct Purpose {
        let flags: Int32
        /// The error code for a file that is missing or, for `creating`, that exists already.
        let obstacle: Int32

        static let reading = Purpose(flags: O_RDONLY | O_NOFOLLOW, obstacle: ENOENT)
        static let writing = Purpose(flags: O_WRONLY | O_NOFOLLOW, obstacle: ENOENT)
        /// For writing a new file; there must be none yet.
        static let creating = Purpose(flags: O_WRONLY | O_NOFOLLOW | O_CREAT | O_EXCL, obstacle: EEXIST)
        /// For syncing; the only one that follows a symbolic link.
        static let directory = Purpose(flags: O_RDONLY, obstacle: ENOENT)
    }

    /// Distinguishes a file from another, and from its own later content.
    struct Identity: Equatable, Sendable {
        /// The number of the file, which distinguishes it from others that exist at the same time.
        let number: UInt64
        let size: Int64
        let modified: Swift.Duration
        let isFile: Bool
        /// The head of the content, if it was read: another file of the same size may come within the same tick of the
        /// clock.
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

        // The numbers of the device and of the file are not compared: both may change when a disk is mounted again, and
        // on a FAT file system a file gets another number after a while.
        static func == (one: Identity, other: Identity) -> Bool {
            (one.size, one.modified, one.isFile, one.head) == (other.size, other.modified, other.isFile, other.head)
        }
    }

    let path: String
    var system: any FluxFileSystem = FluxOwnSystem()

    private var slash: String.Index? { path.utf8.lastIndex(of: UInt8(ascii: "/")) }

    /// The folder of the file.
    var folder: String { slash.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "." }

    /// Where a save writes before it renames; no ``FluxFile`` has such a path.
    var newPath: String { path + Self.newEnding }
    static let newEnding = ".new"
    /// The ending of the name of a file that could not be read; for each after the first, a number follows.
    static let keptEnding = ".unreadable"

    /// Identifies the path, however it is written; nil: its folder cannot be found.
    var place: String? {
        var status = stat()
        if stat(folder, &status) != 0 { return nil }
        let name = slash.map { path[path.utf8.index(after: $0)...] } ?? path[...]
        #if canImport(Darwin)
            // Names that are equal in Swift are equal on the disk, in whatever Unicode form.
            return "FluxFile \(status.st_dev) \(status.st_ino) \(name)"
        #else
            return "FluxFile \(status.st_dev) \(status.st_ino) \(Array(name.utf8))"
        #endif
    }

    // MARK: - By path

    /// Checks that the path is not empty, has no zero byte and does not end in `.new`.
    ///
    /// The system would cut the path off at a zero byte. A path that ends in `.new` is where a save of another file
    /// writes: that save would take this file for the remains of a crash.
    func checkPath() throws(FluxFileError) {
        // Compared by bytes, as one character can include the dot, and in lower case, as some disks ignore the case.
        let (bytes, ending) = (path.lowercased().utf8, Self.newEnding.utf8)
        if bytes.isEmpty || bytes.contains(0) || bytes.suffix(ending.count).elementsEqual(ending) {
            throw FluxFileError(path, .notAPath)
        }
    }

    /// Checks that the folder allows new files, and that only what a save may remove is in the place of the new file.
    ///
    /// If there is no file yet, also checks that its name leaves room for the names of kept files.
    func checkFolder(isFirst: Bool) throws(FluxFileError) {
        try perform(.access, at: folder) { system.mayWrite(in: folder) }
        if try identity(at: newPath)?.isFile == false { throw FluxFileError(path, .notAFile, at: newPath) }
        // To remove the remains of a crash, a save has to open them.
        _ = try withFile(newPath, for: .writing) { _ in }
        if isFirst { _ = try identity(at: path + Self.keptEnding + "-999") }
    }

    /// Returns the identity of the file, or of anything else, at a path; nil: nothing is there.
    func identity(at path: String) throws(FluxFileError) -> Identity? {
        var status = stat()
        let count = try perform(.stat, at: path) {
            system.lookUp(path, &status) == 0 ? 1 : errno == ENOENT ? 0 : -1
        }
        return count == 0 ? nil : Identity(status)
    }

    /// Opens a file for as long as a closure runs; a symbolic link is refused.
    ///
    /// - Returns: What the closure returns; nil: the file is missing or, if it is to be created, exists already.
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

    /// Gives a file a second name; false: that name is taken.
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

    /// Locks a file that was opened by a name; waits until no other process and no other descriptor has the lock.
    ///
    /// - Returns: False if the file was renamed or removed meanwhile.
    func lockFile(_ descriptor: Int32, at name: String) throws(FluxFileError) -> Bool {
        try perform(.lock) { system.lockFile(descriptor) }
        return try identity(at: name)?.number == identity(of: descriptor).number
    }

    /// Reads a file, but no further than its head announces: a foreign file may be larger than the memory.
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
            // The file system takes nothing and does not say why: trying again might never end.
            if count == 0 { throw FluxFileError(path, .system(call: Call.write.rawValue, code: EIO)) }
            rest = rest.dropFirst(count)
        }
    }

    /// Syncs a file: returns once its content survives a loss of power.
    func syncFile(_ descriptor: Int32) throws(FluxFileError) {
        try perform(.sync) { system.syncFile(descriptor) }
    }

    private func closeFile(_ descriptor: Int32) throws(FluxFileError) {
        // Even if interrupted, the descriptor is closed, and everything was synced before.
        try perform(.close) { system.closeFile(descriptor) == 0 || errno == EINTR ? 0 : -1 }
    }

    // MARK: - Support

    /// Repeats a call until no signal interrupts it; returns the result of the system.
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
    /// The system's text for an error code.
    static func text(of code: Int32) -> String { String(cString: strerror(code)) }

    /// A file exists where none should be.
    static func isThere(_ path: String, at place: String) -> FluxFileError {
        FluxFileError(path, .system(call: "open", code: EEXIST), at: place)
    }

    var code: Int32? { if case .system(_, let code) = reason { code } else { nil } }

    /// Whether the system refuses the call each time: it is not permitted, or not available.
    var isRefused: Bool { [EACCES, EPERM, EINVAL, ENOTSUP, ENOSYS].contains(code) }

    /// Whether no later attempt can succeed: the path cannot be used, or belongs to another writer or a newer version.
    ///
    /// A full disk, a device error and too many open files may pass; a missing folder and missing rights may not.
    public var isPermanent: Bool {
        switch reason {
        // The last one comes from a pipe or a socket in the place of the new file.
        case .notAPath, .notAFile, .newer, .changedByAnother, .system("open", ENXIO): true
        // Not for `rename`: if a file that was there is missing then, something else has moved or removed it.
        case .system(let call, ENOENT): call == "open" || call == "access"
        case .system(_, let code):
            [EACCES, EPERM, EROFS, ENOTDIR, EISDIR, ELOOP, ENAMETOOLONG, ENOTSUP, ENOSYS].contains(code)
        case .empty, .foreign, .truncated, .damaged, .noMigration, .coding: false
        }
    }
}

nonisolated extension FluxPersistenceFailure {
    /// Writes a line to standard error; the default handler for failures of a store.
    @Sendable
    static func print(_ failure: FluxPersistenceFailure) {
        var line = "FluxCore: \(failure)\n"
        line.withUTF8 { _ = write(2, $0.baseAddress, $0.count) }
    }
}

/// The system calls that a ``FluxFile`` makes: as in the system, one that fails returns -1 and sets `errno`.
///
/// Tests replace the system, to find out what remains if the nth call or the power fails.
nonisolated protocol FluxFileSystem: Sendable {
    /// Looks up the status of a path; a symbolic link is not followed.
    func lookUp(_ path: String, _ status: inout stat) -> Int
    func lookUp(_ descriptor: Int32, _ status: inout stat) -> Int
    /// Checks whether files may be created in a folder.
    func mayWrite(in folder: String) -> Int
    func openFile(_ path: String, _ flags: Int32) -> Int
    func lockFile(_ descriptor: Int32) -> Int
    func readFile(_ descriptor: Int32, _ buffer: UnsafeMutableRawBufferPointer) -> Int
    func writeFile(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int
    func syncFile(_ descriptor: Int32) -> Int
    func closeFile(_ descriptor: Int32) -> Int
    func linkFile(_ from: String, to: String) -> Int
    func renameFile(_ from: String, to: String) -> Int
    func unlinkFile(_ path: String) -> Int
}

/// The system that the program runs on.
nonisolated struct FluxOwnSystem: FluxFileSystem {
    func lookUp(_ path: String, _ status: inout stat) -> Int { Int(lstat(path, &status)) }
    func lookUp(_ descriptor: Int32, _ status: inout stat) -> Int { Int(fstat(descriptor, &status)) }

    func mayWrite(in folder: String) -> Int {
        #if canImport(Android)
            // Android can check this only for the real user.
            Int(access(folder, W_OK | X_OK))
        #else
            Int(faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS))
        #endif
    }

    func openFile(_ path: String, _ flags: Int32) -> Int { Int(open(path, flags, 0o600)) }
    func lockFile(_ descriptor: Int32) -> Int { Int(flock(descriptor, LOCK_EX)) }

    func readFile(_ descriptor: Int32, _ buffer: UnsafeMutableRawBufferPointer) -> Int {
        read(descriptor, buffer.baseAddress, buffer.count)
    }

    func writeFile(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
        // Darwin refuses more than 2 GB at once.
        write(descriptor, bytes.baseAddress, Swift.min(bytes.count, 1 << 30))
    }

    func syncFile(_ descriptor: Int32) -> Int {
        #if canImport(Darwin)
            // `fsync` leaves the data in the drive's cache on Darwin. Not every file system supports `F_FULLFSYNC`.
            if fcntl(descriptor, F_FULLFSYNC) == 0 { return 0 }
            if errno == EIO || errno == EINTR { return -1 }
        #endif
        return Int(fsync(descriptor))
    }

    func closeFile(_ descriptor: Int32) -> Int { Int(close(descriptor)) }
    func linkFile(_ from: String, to: String) -> Int { Int(link(from, to)) }
    func renameFile(_ from: String, to: String) -> Int { Int(rename(from, to)) }
    func unlinkFile(_ path: String) -> Int { Int(unlink(path)) }
}
