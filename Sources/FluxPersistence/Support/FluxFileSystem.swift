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

/// The calls that a ``FluxFile`` makes, each as the system has it: one that fails returns -1, and leaves a code in `errno`.
///
/// Tests stand in for the system: that is how it is known what is left when the nth call fails, or the power does.
nonisolated protocol FluxFileSystem: Sendable {
    /// Says what is at a path; a symbolic link is not followed.
    func lookUp(_ path: String, _ status: inout stat) -> Int
    func lookUp(_ descriptor: Int32, _ status: inout stat) -> Int
    /// Says whether files may be made in a folder.
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
            // There it knows no other user than the real one.
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
            // There `fsync` leaves it in the cache of the drive. Not every file system knows the other.
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
