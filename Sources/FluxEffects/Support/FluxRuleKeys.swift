#if canImport(FluxCore)
    import FluxCore
#endif

/// Releases keys once no lock is held, because their `deinit` may use the library.
///
/// Keys of common types without a `deinit` are not deferred.
nonisolated func fluxLetGo(of keys: [AnyHashable]) {
    // Keys of any type are not Sendable. From here on they are only released, by one thread.
    nonisolated(unsafe) let own = keys.filter { !($0.base is Bool || $0.base is Int || $0.base is String) }
    if !own.isEmpty { FluxPureCode.after { withExtendedLifetime(own) {} } }
}
