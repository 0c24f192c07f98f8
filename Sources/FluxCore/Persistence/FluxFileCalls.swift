#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Android)
    import Android
#endif

/// The calls to the system that a ``FluxFile`` makes, each with the path in its error.
///
/// Tests put a fault in front of any of them: that is how it is known what is left when the nth one fails.
nonisolated struct FluxFileCalls: Sendable {
    enum Call: String, Sendable, CaseIterable {
        case stat, open, lock = "flock", read, write, sync = "fsync", close, rename, unlink
    }

    enum Fault: Sendable {
        /// The call fails with this code and does nothing.
        case code(Int32)
        /// The call, a write or a read, handles at most so many bytes.
        case short(Int)
    }

    /// What tells one file from another, and from its own later content.
    struct Identity: Equatable, Sendable {
        var device: UInt64
        var number: UInt64
        var size: Int64
        var seconds: Int64
        var nanoseconds: Int64
        var isFile: Bool
    }

    let path: String
    var fault: (@Sendable (Call, _ path: String) -> Fault?)?

    // MARK: - By path

    /// Sees that the path is one: the system would end it at a zero byte, and take what comes before.
    func checkPath() throws(FluxFileError) {
        if path.isEmpty || path.utf8.contains(0) { throw FluxFileError(path, .notAPath) }
    }

    /// What is at a path; nil: nothing.
    func identity(at path: String) throws(FluxFileError) -> Identity? {
        var status = unsafe_stat()
        let code = attempt(.stat, path) { lstat(path, &status) }
        if code == ENOENT { return nil }
        try check(.stat, code, at: path)
        return Identity(status)
    }

    /// Opens a file; a symbolic link is refused unless it is to be followed.
    func openFile(_ path: String, _ flags: Int32, follows: Bool = false) throws(FluxFileError) -> Int32 {
        var descriptor: Int32 = -1
        let code = attempt(.open, path) {
            descriptor = open(path, flags | O_CLOEXEC | O_NONBLOCK | (follows ? 0 : O_NOFOLLOW), 0o600)
            return descriptor
        }
        try check(.open, code, at: path)
        return descriptor
    }

    func renameFile(_ from: String, to: String) throws(FluxFileError) {
        try check(.rename, attempt(.rename, from) { rename(from, to) }, at: from)
    }

    func unlinkFile(_ path: String) throws(FluxFileError) {
        try check(.unlink, attempt(.unlink, path) { unlink(path) }, at: path)
    }

    // MARK: - By descriptor

    func identity(of descriptor: Int32) throws(FluxFileError) -> Identity {
        var status = unsafe_stat()
        try check(.stat, attempt(.stat, path) { fstat(descriptor, &status) })
        return Identity(status)
    }

    /// Waits until no other process and no other descriptor has the lock of the file.
    func lockFile(_ descriptor: Int32) throws(FluxFileError) {
        try check(.lock, attempt(.lock, path) { flock(descriptor, LOCK_EX) })
    }

    func readFile(_ descriptor: Int32) throws(FluxFileError) -> [UInt8] {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            var count = 0
            let code = attempt(.read, path) { most in
                buffer.withUnsafeMutableBytes { count = read(descriptor, $0.baseAddress, Swift.min($0.count, most)) }
                return Int32(clamping: count)
            }
            try check(.read, code)
            if count == 0 { return bytes }
            bytes += buffer[..<count]
        }
    }

    func writeFile(_ descriptor: Int32, _ bytes: [UInt8]) throws(FluxFileError) {
        var start = 0
        while start < bytes.count {
            var count = 0
            let code = attempt(.write, path) { most in
                bytes.withUnsafeBytes {
                    count = write(descriptor, $0.baseAddress! + start, Swift.min($0.count - start, most))
                }
                return Int32(clamping: count)
            }
            try check(.write, code)
            start += count
        }
    }

    /// Returns when what was written is where a loss of power does not reach it.
    func syncFile(_ descriptor: Int32) throws(FluxFileError) {
        let code = attempt(.sync, path) {
            #if canImport(Darwin)
                // There `fsync` leaves it in the cache of the drive. Not every file system knows the other.
                if fcntl(descriptor, F_FULLFSYNC) == 0 { return 0 }
            #endif
            return fsync(descriptor)
        }
        try check(.sync, code)
    }

    func closeFile(_ descriptor: Int32) throws(FluxFileError) {
        var isClosed = false
        let code = attempt(.close, path) {
            isClosed = true
            return close(descriptor)
        }
        if !isClosed { _ = close(descriptor) }
        // Interrupted or not, the descriptor is gone, and all was synced before.
        if code != EINTR { try check(.close, code) }
    }

    // MARK: - Support

    private func unsafe_stat() -> stat { stat() }

    private func attempt(_ call: Call, _ path: String, _ body: () -> Int32) -> Int32 {
        attempt(call, path) { _ in body() }
    }

    /// Makes a call until no signal interrupts it; returns 0 or the code that it failed with.
    private func attempt(_ call: Call, _ path: String, _ body: (_ most: Int) -> Int32) -> Int32 {
        while true {
            var most = Int.max
            switch fault?(call, path) {
            case .code(let code): return code
            case .short(let count): most = count
            case nil: break
            }
            if body(most) >= 0 { return 0 }
            if errno != EINTR || call == .close { return errno }
        }
    }

    private func check(_ call: Call, _ code: Int32, at place: String? = nil) throws(FluxFileError) {
        if code == 0 { return }
        var error = FluxFileError(path, .system(call: call.rawValue, code: code))
        if place != path { error.place = place }
        throw error
    }
}

nonisolated extension FluxFileCalls.Identity {
    init(_ status: stat) {
        device = UInt64(truncatingIfNeeded: status.st_dev)
        number = UInt64(truncatingIfNeeded: status.st_ino)
        size = Int64(status.st_size)
        #if canImport(Darwin)
            let time = status.st_mtimespec
        #else
            let time = status.st_mtim
        #endif
        seconds = Int64(time.tv_sec)
        nanoseconds = Int64(time.tv_nsec)
        isFile = status.st_mode & S_IFMT == S_IFREG
    }
}
