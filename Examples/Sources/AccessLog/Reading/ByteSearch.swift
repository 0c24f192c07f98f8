#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

extension ArraySlice<UInt8> {
    /// The position of the first such byte.
    ///
    /// It is what `firstIndex(of:)` returns, but as fast in a debug build, which is what `swift run` makes: there the
    /// standard library's would be most of the time that a line takes.
    func find(_ byte: UInt8) -> Index? {
        withUnsafeBytes { bytes in
            guard let start = bytes.baseAddress, let found = memchr(start, Int32(byte), bytes.count) else { return nil }
            return startIndex + (UnsafeRawPointer(found) - start)
        }
    }
}
