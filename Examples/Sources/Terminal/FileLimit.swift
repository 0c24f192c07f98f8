#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Lets the program have as many files and connections as the system allows: many systems begin with 1,024, or 256.
public func raiseFileLimit() {
    #if canImport(Glibc)
        let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    #else
        let files = RLIMIT_NOFILE
    #endif
    var limit = rlimit()
    guard getrlimit(files, &limit) == 0 else { return }
    limit.rlim_cur = min(limit.rlim_max, 1 << 20)
    setrlimit(files, &limit)
}
