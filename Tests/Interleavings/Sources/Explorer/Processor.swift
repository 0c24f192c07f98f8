#if canImport(Glibc)
    import Glibc
#endif

/// Pins the process to one processor, which halves the time, because only one of its threads runs at a time.
enum Processor {
    /// Pins the process to one of the processors that it may use, on Linux.
    ///
    /// - Parameter turn: The index of the processor, which wraps around.
    static func keep(_ turn: Int) {
        #if canImport(Glibc)
            // Swift imports neither of the two functions, which are not part of POSIX.
            typealias Call = @convention(c) (pid_t, Int, UnsafeMutableRawPointer) -> Int32
            guard let get = dlsym(nil, "sched_getaffinity"), let set = dlsym(nil, "sched_setaffinity") else { return }
            var allowed = [UInt8](repeating: 0, count: 128)
            guard unsafeBitCast(get, to: Call.self)(0, allowed.count, &allowed) == 0 else { return }
            let processors = (0..<allowed.count * 8).filter { allowed[$0 / 8] >> UInt8($0 % 8) & 1 == 1 }
            guard !processors.isEmpty else { return }
            let chosen = processors[turn % processors.count]
            var wanted = [UInt8](repeating: 0, count: 128)
            wanted[chosen / 8] = 1 << UInt8(chosen % 8)
            _ = unsafeBitCast(set, to: Call.self)(0, wanted.count, &wanted)
        #endif
    }
}
