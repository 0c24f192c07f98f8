#if canImport(FluxCore)
    import FluxCore
#endif

/// Lets go of keys once no lock is held, as their `deinit` may use the library; of those that have none nothing is put off.
nonisolated func fluxLetGo(of keys: [AnyHashable]) {
    // Not Sendable, as keys are of any type: from here on they are only let go of, by one thread.
    nonisolated(unsafe) let own = keys.filter { !($0.base is Bool || $0.base is Int || $0.base is String) }
    if !own.isEmpty { FluxPureCode.after { withExtendedLifetime(own) {} } }
}
