#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Android)
    import Android
#endif

/// Stops the program with a message unless a value that it was given makes sense; unlike a precondition it says so in
/// release builds too.
nonisolated func fluxRequire(_ condition: Bool, _ message: @autoclosure () -> String) {
    if !condition { fatalError("FluxCore: \(message())") }
}

/// Writes a line to the standard error output: for what would be lost in silence otherwise.
nonisolated func fluxWarn(_ message: String) {
    var line = "FluxCore: \(message)\n"
    line.withUTF8 { _ = write(2, $0.baseAddress, $0.count) }
}
