#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

extension ArraySlice<UInt8> {
    /// Returns the position of the first occurrence of a byte.
    ///
    /// The result is that of `firstIndex(of:)`. But this is as fast in a debug build, which `swift run` creates; there
    /// the standard library's search would take most of the time spent on a line.
    func find(_ byte: UInt8) -> Index? {
        withUnsafeBytes { bytes in
            guard let start = bytes.baseAddress, let found = memchr(start, Int32(byte), bytes.count) else { return nil }
            return startIndex + (UnsafeRawPointer(found) - start)
        }
    }
}
