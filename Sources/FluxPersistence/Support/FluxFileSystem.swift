#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Android)
    import Android
#endif

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
