#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Counts the bytes that the process has allocated with `malloc` and not freed; exact, unlike the system's figures.
///
/// Use it in an exit test, whose process runs nothing else.
public enum Heap {
    #if canImport(Darwin)
        /// The number of bytes in use, as the system counts them.
        public static var bytesInUse: Int { Int(mstats().bytes_used) }
    #else
        /// The number of bytes in use in all arenas, from `malloc_info`; no header that Swift imports has `mallinfo2`.
        public static var bytesInUse: Int {
            // A sanitizer has its own allocator, which keeps count.
            if let symbol = dlsym(dlopen(nil, RTLD_NOW), "__sanitizer_get_current_allocated_bytes") {
                return unsafeBitCast(symbol, to: (@convention(c) () -> Int).self)()
            }
            typealias Report = @convention(c) (Int32, UnsafeMutablePointer<FILE>) -> Int32
            guard let symbol = dlsym(dlopen(nil, RTLD_NOW), "malloc_info") else { fatalError("no malloc_info") }
            var text: UnsafeMutablePointer<CChar>?
            var size = 0
            guard let stream = open_memstream(&text, &size) else { fatalError("no stream in memory") }
            _ = unsafeBitCast(symbol, to: Report.self)(0, stream)
            fclose(stream)
            guard let text else { fatalError("no report") }
            defer { free(text) }
            // The totals of all arenas come last: free blocks in lists, blocks mapped one by one, and the total.
            let totals = String(cString: text).components(after: "</heap>")
            let free = totals.sizes(of: "<total type=\"fast\"") + totals.sizes(of: "<total type=\"rest\"")
            return totals.sizes(of: "<system type=\"current\"") + totals.sizes(of: "<total type=\"mmap\"") - free
        }
    #endif

    /// Returns how many bytes each run of a body leaves allocated, after a warm-up that creates one-time objects.
    ///
    /// The number of runs is high because the allocator keeps memory for each thread, and a busy machine may start
    /// threads meanwhile. Spread over this many runs, that memory hardly counts.
    public static func bytesKept(warmUp: Int = 2_000, runs: Int = 60_000, _ body: (Int) async -> Void) async -> Int {
        await body(warmUp)
        let before = bytesInUse
        await body(runs)
        return (bytesInUse - before) / runs
    }

    #if canImport(Glibc)
        /// Makes the allocator map blocks above 64 kB separately, so ``pageFaults`` shows how often one is created.
        ///
        /// Such a block is returned to the system when it is freed.
        public static func mapLargeBlocks() {
            typealias Option = @convention(c) (Int32, Int32) -> Int32
            guard let symbol = dlsym(dlopen(nil, RTLD_NOW), "mallopt") else { fatalError("no mallopt") }
            let thresholdOfMapping: Int32 = -3
            _ = unsafeBitCast(symbol, to: Option.self)(thresholdOfMapping, 65_536)
        }

        /// How often the process has touched a page for the first time.
        public static var pageFaults: Int {
            var usage = rusage()
            getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
            return usage.ru_minflt
        }
    #endif
}

extension String {
    /// Returns the text after the last occurrence of a marker.
    fileprivate func components(after marker: String) -> Substring {
        var rest = self[...]
        while let range = rest.firstRange(of: marker) { rest = rest[range.upperBound...] }
        return rest
    }
}

extension Substring {
    /// Returns the `size` of the first tag that begins with the given text, or 0.
    fileprivate func sizes(of tag: String) -> Int {
        guard let start = firstRange(of: tag), let size = self[start.upperBound...].firstRange(of: "size=\"") else {
            return 0
        }
        return Int(self[size.upperBound...].prefix { $0 != "\"" }) ?? 0
    }
}
