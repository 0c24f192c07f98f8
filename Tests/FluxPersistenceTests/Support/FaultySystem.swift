import Foundation
import TestSupport

@testable import FluxPersistence

/// The real system, with a fault in front of any call.
struct FaultySystem: FluxFileSystem {
    enum Fault: Sendable {
        /// The call fails with this code and does nothing.
        case code(Int32)
        /// A write or read handles at most this many bytes.
        case short(Int)
    }

    /// Called before each system call with the path concerned, which is the file's if the call takes a descriptor.
    typealias Plan = @Sendable (FluxFileCalls.Call, _ path: String) -> Fault?

    private let path: String
    private let plan: Plan?
    private let own = FluxOwnSystem()
    /// Whether files differ only in size, as they may when a file number is reused within one tick of the clock.
    var isCoarse = false

    /// An offset added to the files' numbers, which may change while no descriptor is open.
    var added: Locked<UInt64>?

    init(_ path: String, _ plan: Plan?) {
        (self.path, self.plan) = (path, plan)
    }

    private func perform(_ call: FluxFileCalls.Call, at place: String? = nil, _ body: (_ most: Int) -> Int) -> Int {
        switch plan?(call, place ?? path) {
        case .code(let code):
            errno = code
            return -1
        case .short(let count): return body(count)
        case nil: return body(.max)
        }
    }

    func lookUp(_ path: String, _ status: inout stat) -> Int {
        perform(.stat, at: path) { _ in coarsened(own.lookUp(path, &status), &status) }
    }

    func lookUp(_ descriptor: Int32, _ status: inout stat) -> Int {
        perform(.stat) { _ in coarsened(own.lookUp(descriptor, &status), &status) }
    }

    private func coarsened(_ result: Int, _ status: inout stat) -> Int {
        if let added { status.st_ino = numericCast(UInt64(status.st_ino) + added.current) }
        if !isCoarse { return result }
        status.st_ino = 1
        #if canImport(Darwin)
            status.st_mtimespec = timespec()
        #else
            status.st_mtim = timespec()
        #endif
        return result
    }

    func mayWrite(in folder: String) -> Int { perform(.access, at: folder) { _ in own.mayWrite(in: folder) } }
    func openFile(_ path: String, _ flags: Int32) -> Int { perform(.open, at: path) { _ in own.openFile(path, flags) } }
    func lockFile(_ descriptor: Int32) -> Int { perform(.lock) { _ in own.lockFile(descriptor) } }

    func readFile(_ descriptor: Int32, _ buffer: UnsafeMutableRawBufferPointer) -> Int {
        perform(.read) { most in own.readFile(descriptor, UnsafeMutableRawBufferPointer(rebasing: buffer.prefix(most)))
        }
    }

    func writeFile(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
        perform(.write) { most in own.writeFile(descriptor, UnsafeRawBufferPointer(rebasing: bytes.prefix(most))) }
    }

    func syncFile(_ descriptor: Int32) -> Int { perform(.sync) { _ in own.syncFile(descriptor) } }

    func closeFile(_ descriptor: Int32) -> Int {
        // Closes even if the call is to fail: otherwise the test itself would leak a descriptor.
        let result = own.closeFile(descriptor)
        return perform(.close) { _ in result }
    }

    func linkFile(_ from: String, to: String) -> Int {
        perform(.link, at: to) { _ in own.linkFile(from, to: to) }
    }

    func renameFile(_ from: String, to: String) -> Int {
        perform(.rename, at: from) { _ in own.renameFile(from, to: to) }
    }

    func unlinkFile(_ path: String) -> Int { perform(.unlink, at: path) { _ in own.unlinkFile(path) } }
}
