#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// An open file, closed when the last reference is released.
final class FileDescriptor: Sendable {
    private let number: Int32
    private let name: String

    /// Opens a file for reading; `-` is the standard input.
    init(path: String, name: String) throws(LogFileError) {
        self.name = name
        number = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        if number < 0 { throw LogFileError(name, systemReason()) }
        // Opening a directory succeeds; only reading it would fail.
        if try status().isDirectory { throw LogFileError(name, String(cString: strerror(EISDIR))) }
    }

    deinit {
        if number > STDERR_FILENO { close(number) }
    }

    /// Reads the available bytes, and waits for the first one only; an empty result means the end.
    func read(atMost limit: Int) throws(LogFileError) -> [UInt8] {
        let number = number
        while true {
            var count = 0
            let chunk = [UInt8](unsafeUninitializedCapacity: limit) { buffer, initialized in
                count = readBytes(number, buffer.baseAddress, limit)
                initialized = max(count, 0)
            }
            if count >= 0 { return chunk }
            if errno != EINTR { throw LogFileError(name, systemReason()) }
        }
    }

    /// Whether a read would return at once.
    func isReadable() -> Bool {
        var request = pollfd(fd: number, events: Int16(POLLIN), revents: 0)
        return poll(&request, 1, 0) > 0
    }

    func rewind() throws(LogFileError) {
        if lseek(number, 0, SEEK_SET) < 0 { throw LogFileError(name, systemReason()) }
    }

    func status() throws(LogFileError) -> FileStatus {
        var result = stat()
        if fstat(number, &result) < 0 { throw LogFileError(name, systemReason()) }
        return FileStatus(result)
    }
}

/// The file system's information about a file.
struct FileStatus: Sendable {
    /// Identifies a file.
    struct ID: Sendable, Equatable {
        var device: UInt64
        var inode: UInt64
    }

    let id: ID
    let size: Int
    let isRegular: Bool
    let isDirectory: Bool

    /// Reads the status of the file that currently has a name; nil if there is none.
    init?(path: String) {
        var result = stat()
        if stat(path, &result) < 0 { return nil }
        self.init(result)
    }

    fileprivate init(_ result: stat) {
        id = ID(device: UInt64(truncatingIfNeeded: result.st_dev), inode: UInt64(result.st_ino))
        size = Int(result.st_size)
        isRegular = result.st_mode & S_IFMT == S_IFREG
        isDirectory = result.st_mode & S_IFMT == S_IFDIR
    }
}

private func systemReason() -> String {
    String(cString: strerror(errno))
}

/// The system's `read`, which the method of that name hides.
private func readBytes(_ number: Int32, _ buffer: UnsafeMutableRawPointer?, _ count: Int) -> Int {
    read(number, buffer, count)
}
