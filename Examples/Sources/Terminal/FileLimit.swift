#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Raises the limit of open files and connections to the maximum of the system, but not above 1,048,576.
///
/// Many systems start a program with a limit of 1,024, or 256.
///
/// - Returns: The limit that applies now.
@discardableResult public func raiseFileLimit() -> Int {
    #if canImport(Glibc)
        let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    #else
        let files = RLIMIT_NOFILE
    #endif
    let most = 1 << 20
    var limit = rlimit()
    guard getrlimit(files, &limit) == 0 else { return most }
    let before = limit.rlim_cur
    limit.rlim_cur = min(limit.rlim_max, rlim_t(most))
    return Int(min(setrlimit(files, &limit) == 0 ? limit.rlim_cur : before, rlim_t(most)))
}
