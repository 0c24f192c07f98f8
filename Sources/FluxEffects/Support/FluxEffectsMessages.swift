#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Android)
    import Android
#endif

/// Stops the program with a message unless a condition on a given value holds, as `fluxRequire` of the core does.
nonisolated func fluxEffectsRequire(_ condition: Bool, _ message: @autoclosure () -> String) {
    if !condition { fatalError("FluxCore: \(message())") }
}

/// Writes a line to the standard error output, for errors that would otherwise be lost silently.
nonisolated func fluxEffectsWarn(_ message: String) {
    let line = Array("FluxCore: \(message)\n".utf8)
    _ = write(2, line, line.count)
}
