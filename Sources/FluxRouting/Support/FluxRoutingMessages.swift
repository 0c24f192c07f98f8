#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Android)
    import Android
#endif

/// What the program is told where nobody can be asked.
nonisolated enum FluxRoutingMessages {
    /// Stops the program with a message unless a value that it was given makes sense, in release builds too.
    static func require(_ condition: Bool, _ message: @autoclosure () -> String) {
        if !condition { fatalError("FluxCore: \(message())") }
    }

    /// Writes a line to the standard error output: for what would be lost in silence otherwise.
    static func warn(_ message: String) {
        let line = Array("FluxCore: \(message)\n".utf8)
        _ = write(2, line, line.count)
    }
}
