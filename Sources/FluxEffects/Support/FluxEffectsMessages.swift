#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Android)
    import Android
#endif

/// Writes a line to the standard error output, for errors that would otherwise be lost silently.
nonisolated func fluxEffectsWarn(_ message: String) {
    let line = Array("FluxCore: \(message)\n".utf8)
    _ = write(2, line, line.count)
}
