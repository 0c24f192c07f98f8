import Foundation
import GRDBSQLite
import Synchronization

/// How SQLite accesses files: those in the folder of a ``DatabaseDisk`` are on that disk, all others are the system's.
enum DatabaseVFS {
    private struct Known {
        weak var disk: DatabaseDisk?
        /// The memory that connections share for each region; freed with the disk.
        var regions: [Int: UnsafeMutableRawPointer] = [:]
    }

    private static let known = Mutex<[String: Known]>([:])

    /// A file as SQLite keeps it: SQLite's part, which every file has, and ours.
    private struct Handle {
        var base: sqlite3_file
        var file: UnsafeMutableRawPointer?
    }

    private final class OpenFile {
        let disk: DatabaseDisk
        let name: String

        init(_ disk: DatabaseDisk, _ name: String) { (self.disk, self.name) = (disk, name) }
    }

    static func add(_ disk: DatabaseDisk) {
        _ = isRegistered
        known.withLock { $0[disk.folder] = Known(disk: disk) }
    }

    static func remove(_ folder: String) {
        let gone = known.withLock { $0.removeValue(forKey: folder) }
        gone?.regions.values.forEach { free($0) }
    }

    static func region(of folder: String, _ region: Int, _ size: Int) -> UnsafeMutableRawPointer? {
        known.withLock { known in
            let found = known[folder]?.regions[region] ?? calloc(1, size)
            known[folder]?.regions[region] = found
            return found
        }
    }

    /// The disk that a path leads to, and the name of the file there.
    private static func place(_ path: UnsafePointer<CChar>?) -> (disk: DatabaseDisk, name: String)? {
        guard let path else { return nil }
        let text = String(cString: path)
        return known.withLock { known in
            guard let folder = known.keys.first(where: { text.hasPrefix($0) }), let disk = known[folder]?.disk
            else { return nil }
            return (disk, String(text.dropFirst(folder.count)))
        }
    }

    private static func file(_ file: UnsafeMutablePointer<sqlite3_file>?) -> OpenFile {
        let handle = UnsafeMutableRawPointer(file!).assumingMemoryBound(to: Handle.self)
        return Unmanaged<OpenFile>.fromOpaque(handle.pointee.file!).takeUnretainedValue()
    }

    // MARK: - For all files

    nonisolated(unsafe) private static let system = sqlite3_vfs_find(nil)!

    /// Registered once, and as the default, because the program cannot name a VFS in any other way.
    private static let isRegistered: Bool = {
        let vfs = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
        // Everything that is not set below works as in the system's VFS.
        vfs.initialize(to: system.pointee)
        vfs.pointee.pNext = nil
        vfs.pointee.zName = UnsafePointer(strdup("memory-disk"))
        vfs.pointee.szOsFile = max(system.pointee.szOsFile, Int32(MemoryLayout<Handle>.size))
        vfs.pointee.xOpen = { _, path, file, flags, outFlags in
            guard let (disk, name) = place(path) else {
                return system.pointee.xOpen(system, path, file, flags, outFlags)
            }
            file!.pointee.pMethods = nil
            if !disk.open(name, flags) { return SQLITE_CANTOPEN }
            let handle = UnsafeMutableRawPointer(file!).assumingMemoryBound(to: Handle.self)
            handle.pointee.file = Unmanaged.passRetained(OpenFile(disk, name)).toOpaque()
            handle.pointee.base.pMethods = methods
            outFlags?.pointee = flags
            return SQLITE_OK
        }
        vfs.pointee.xDelete = { _, path, isSynced in
            guard let (disk, name) = place(path) else { return system.pointee.xDelete(system, path, isSynced) }
            return disk.delete(name, isSynced: isSynced != 0)
        }
        vfs.pointee.xAccess = { _, path, flags, result in
            guard let (disk, name) = place(path) else { return system.pointee.xAccess(system, path, flags, result) }
            result!.pointee = disk.exists(name) ? 1 : 0
            return SQLITE_OK
        }
        vfs.pointee.xFullPathname = { _, path, size, result in
            guard place(path) != nil else { return system.pointee.xFullPathname(system, path, size, result) }
            strncpy(result!, path!, Int(size))
            return SQLITE_OK
        }
        return sqlite3_vfs_register(vfs, 1) == SQLITE_OK
    }()

    // MARK: - For one file

    nonisolated(unsafe) private static let methods: UnsafePointer<sqlite3_io_methods> = {
        let methods = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
        methods.initialize(to: sqlite3_io_methods())
        methods.pointee.iVersion = 2
        methods.pointee.xClose = { file in
            let handle = UnsafeMutableRawPointer(file!).assumingMemoryBound(to: Handle.self)
            Unmanaged<OpenFile>.fromOpaque(handle.pointee.file!).release()
            return SQLITE_OK
        }
        methods.pointee.xRead = { file, buffer, count, position in
            let opened = DatabaseVFS.file(file)
            let buffer = UnsafeMutableRawBufferPointer(start: buffer, count: Int(count))
            return opened.disk.read(opened.name, at: Int(position), into: buffer)
        }
        methods.pointee.xWrite = { file, bytes, count, position in
            let opened = DatabaseVFS.file(file)
            let bytes = Array(UnsafeRawBufferPointer(start: bytes, count: Int(count)))
            return opened.disk.write(opened.name, at: Int(position), bytes)
        }
        methods.pointee.xTruncate = { file, size in
            let opened = DatabaseVFS.file(file)
            return opened.disk.truncate(opened.name, to: Int(size))
        }
        methods.pointee.xSync = { file, _ in
            let opened = DatabaseVFS.file(file)
            return opened.disk.sync(opened.name)
        }
        methods.pointee.xFileSize = { file, size in
            let opened = DatabaseVFS.file(file)
            size!.pointee = sqlite3_int64(opened.disk.size(of: opened.name))
            return SQLITE_OK
        }
        // There is one connection at a time, so none is ever locked out.
        methods.pointee.xLock = { _, _ in SQLITE_OK }
        methods.pointee.xUnlock = { _, _ in SQLITE_OK }
        methods.pointee.xCheckReservedLock = { _, result in
            result!.pointee = 0
            return SQLITE_OK
        }
        methods.pointee.xFileControl = { _, _, _ in SQLITE_NOTFOUND }
        methods.pointee.xSectorSize = { _ in 512 }
        // As the system's own VFS reports: a torn write does not damage the bytes next to it.
        methods.pointee.xDeviceCharacteristics = { _ in SQLITE_IOCAP_POWERSAFE_OVERWRITE }
        methods.pointee.xShmMap = { file, region, size, _, result in
            let disk = DatabaseVFS.file(file).disk
            result!.pointee = UnsafeMutableRawPointer(DatabaseVFS.region(of: disk.folder, Int(region), Int(size)))
            return SQLITE_OK
        }
        methods.pointee.xShmLock = { _, _, _, _ in SQLITE_OK }
        methods.pointee.xShmBarrier = { _ in }
        methods.pointee.xShmUnmap = { _, _ in SQLITE_OK }
        return UnsafePointer(methods)
    }()
}
