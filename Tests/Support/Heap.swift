#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// What the process has got from `malloc` and not given back: exact, where the memory that the system counts is not.
///
/// To be used in an exit test, whose process runs nothing else.
public enum Heap {
    #if canImport(Darwin)
        /// The figure that the system keeps.
        public static var bytesInUse: Int { Int(mstats().bytes_used) }
    #else
        /// `mallinfo2` is in no header that Swift imports; this is the report that has its figures, and those of all arenas.
        public static var bytesInUse: Int {
            // A sanitizer has an allocator of its own, which keeps count.
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
            // The totals of all arenas come last: what is free in lists, what is mapped for one block, and what there is.
            let totals = String(cString: text).components(after: "</heap>")
            let free = totals.sizes(of: "<total type=\"fast\"") + totals.sizes(of: "<total type=\"rest\"")
            return totals.sizes(of: "<system type=\"current\"") + totals.sizes(of: "<total type=\"mmap\"") - free
        }
    #endif

    /// How many bytes each of many runs of a body leaves behind, once it has run often enough for what is kept once.
    ///
    /// So many that what the allocator keeps for a thread, of which a busy machine may begin some meanwhile, is little for each.
    public static func bytesKept(warmUp: Int = 2_000, runs: Int = 60_000, _ body: (Int) async -> Void) async -> Int {
        await body(warmUp)
        let before = bytesInUse
        await body(runs)
        return (bytesInUse - before) / runs
    }

    #if canImport(Glibc)
        /// Has every block of more than 64 kB mapped by itself and given back when it is freed, from now on, so that
        /// ``pageFaults`` tells how often such blocks are made.
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
    /// What comes after the last of a marker.
    fileprivate func components(after marker: String) -> Substring {
        var rest = self[...]
        while let range = rest.firstRange(of: marker) { rest = rest[range.upperBound...] }
        return rest
    }
}

extension Substring {
    /// The `size` of the tag that begins so.
    fileprivate func sizes(of tag: String) -> Int {
        guard let start = firstRange(of: tag), let size = self[start.upperBound...].firstRange(of: "size=\"") else {
            return 0
        }
        return Int(self[size.upperBound...].prefix { $0 != "\"" }) ?? 0
    }
}
