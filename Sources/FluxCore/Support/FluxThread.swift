import Dispatch

#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Android)
    import Android
#endif

/// What the library records about one thread.
@usableFromInline nonisolated struct FluxThread {
    /// The address of the store, or other owner of a lock, whose pure code runs on this thread; nil if none does.
    ///
    /// It is used only for comparison, and to describe the owner in a message.
    @usableFromInline var pure: UnsafeRawPointer?
    /// The name of that code, if it is not `handle(action:)`.
    var scope: StaticString?
    /// Whether the thread has paused dispatchers: objects released meanwhile end after the pause.
    var isPausing = false
    /// Whether the thread may hold a lock; then no user object may be released on it.
    var mayHoldLock: Bool { pure != nil || isPausing }
    /// Work that is deferred until no pure code runs and no dispatcher is paused.
    @usableFromInline var later: [@Sendable () -> Void]?
    /// The task whose action is being dispatched on this thread, if any; the dispatching code keeps it alive.
    var sending: Unmanaged<FluxTask>?
}

/// Finds the record of the calling thread.
///
/// Handles and dispatchers keep a copy in a field, so that the hot path need not check whether a global is initialised.
@usableFromInline nonisolated struct FluxThreads: Sendable {
    @usableFromInline static let shared = FluxThreads()

    /// A `pthread_key_t`, in the same size on every system.
    @usableFromInline let key: UInt32

    private init() {
        var key = pthread_key_t()
        let status = pthread_key_create(&key) { ($0 as UnsafeMutableRawPointer?)?.deallocate() }
        fluxRequire(status == 0, "the process has no thread-specific key left (\(status)).")
        self.key = UInt32(truncatingIfNeeded: key)
    }

    @inlinable var current: UnsafeMutablePointer<FluxThread> {
        pthread_getspecific(pthread_key_t(truncatingIfNeeded: key))?.assumingMemoryBound(to: FluxThread.self)
            ?? makeRecord()
    }

    /// Returns the record; stops the program if pure code runs on the thread.
    @inlinable @inline(__always) @discardableResult
    func requireImpure(_ call: StaticString) -> UnsafeMutablePointer<FluxThread> {
        let thread = current
        if thread.pointee.pure != nil { fluxStopInPureCode(call) }
        return thread
    }

    @usableFromInline func makeRecord() -> UnsafeMutablePointer<FluxThread> {
        let record = UnsafeMutablePointer<FluxThread>.allocate(capacity: 1)
        record.initialize(to: FluxThread())
        pthread_setspecific(pthread_key_t(truncatingIfNeeded: key), record)
        return record
    }
}

nonisolated extension UnsafeMutablePointer<FluxThread> {
    /// Runs pure code under the lock of an object; no pure code runs on the thread yet.
    @inlinable @inline(__always) func purely<Result>(_ owner: AnyObject, _ body: () -> Result) -> Result {
        pointee.pure = UnsafeRawPointer(Unmanaged.passUnretained(owner).toOpaque())
        let result = body()
        pointee.pure = nil
        if pointee.later != nil { doLater() }
        return result
    }

    /// Runs the deferred work on another thread, because this one may still hold locks.
    @usableFromInline func doLater() {
        guard !pointee.mayHoldLock, pointee.later != nil else { return }
        // Safe: this thread only passes the closures on; the other thread takes them out. Otherwise this thread might
        // release them last, and with them what they hold, if the other thread is done before `async` returns here.
        nonisolated(unsafe) var later = Swift.exchange(&pointee.later, with: nil)
        DispatchQueue.global().async {
            for body in Swift.exchange(&later, with: nil) ?? [] { body() }
        }
    }

    /// Runs a dispatch on behalf of a task.
    @usableFromInline func sending<Result>(_ task: FluxTask?, _ body: () -> Result) -> Result {
        let outer = pointee.sending
        pointee.sending = task.map { Unmanaged.passUnretained($0) }
        defer { pointee.sending = outer }
        return body()
    }

    var task: FluxTask? { pointee.sending?.takeUnretainedValue() }

    /// Returns whether a dispatch runs on behalf of this task, or, with nil, of none; retains neither.
    @inline(__always) func isSending(_ task: FluxTask?) -> Bool {
        pointee.sending?.toOpaque() == task.map { Unmanaged.passUnretained($0).toOpaque() }
    }
}

/// Code that runs under a lock and may use no store, dispatcher or creator, such as a selector or a rule's condition.
///
/// `FluxState.handle(action:)` is such code. A program that breaks this rule stops with a message (C6).
///
/// Thread safety: all of it may be used from any thread.
nonisolated public enum FluxPureCode {
    /// Runs user code that has to be pure.
    ///
    /// - Parameters:
    ///   - name: What the code is, for the message: "a condition of FluxRule".
    ///   - body: The code.
    /// - Returns: What the code returns.
    public static func run<Result>(_ name: StaticString, _ body: () -> Result) -> Result {
        let thread = FluxThreads.shared.current
        let outer = (thread.pointee.pure, thread.pointee.scope)
        (thread.pointee.pure, thread.pointee.scope) = (UnsafeRawPointer(thread), name)
        defer {
            (thread.pointee.pure, thread.pointee.scope) = outer
            thread.doLater()
        }
        return body()
    }

    /// Runs a closure now or, if the calling thread may hold a lock, later on another thread.
    ///
    /// Use it to release user objects. The thread may hold a lock while it runs pure code or has dispatchers paused.
    /// The closure runs once that is over, and keeps what it captured until then. Closures that were put off together
    /// run one after the other, in the order of these calls.
    ///
    /// - Parameter body: The closure.
    public static func after(_ body: @escaping @Sendable () -> Void) {
        let thread = FluxThreads.shared.current
        if !thread.pointee.mayHoldLock { return body() }
        if thread.pointee.later?.append(body) == nil { thread.pointee.later = [body] }
    }

    /// Stops the program with a message if the calling thread runs pure code.
    ///
    /// - Parameter call: The name of the function that was called, for the message.
    public static func forbid(_ call: StaticString) { FluxThreads.shared.requireImpure(call) }
}

/// Stops the program because pure code used a store, a dispatcher or a creator.
@usableFromInline nonisolated func fluxStopInPureCode(_ call: StaticString) -> Never {
    let thread = FluxThreads.shared.current.pointee
    var place = "\(thread.scope ?? "FluxState.handle(action:), or code that runs with it")"
    if thread.scope == nil, let owner = thread.pure {
        let handle = Unmanaged<AnyObject>.fromOpaque(owner).takeUnretainedValue() as? any FluxStoreHandling
        place += handle.map { ": \($0.handlerName)" } ?? ""
    }
    fatalError(
        "FluxCore: \(call) was used inside \(place). That code must be pure: it runs while a lock is held. "
            + "Do this in the converter, in a subscription or after the dispatch; pass what it needs in the action.")
}

/// Stops the program with a message unless a condition on a given value holds.
///
/// Unlike a precondition, it shows the message in release builds too.
nonisolated func fluxRequire(_ condition: Bool, _ message: @autoclosure () -> String) {
    if !condition { fatalError("FluxCore: \(message())") }
}

/// Writes a line to the standard error output, for what would otherwise be lost silently.
nonisolated func fluxWarn(_ message: String) {
    var line = "FluxCore: \(message)\n"
    line.withUTF8 { _ = write(2, $0.baseAddress, $0.count) }
}

/// Waits a limited time for a lock to be free, without queueing for it.
///
/// It checks soon, and then less and less often: a check that finds the lock taken is a system call and disturbs the
/// thread that holds it. The short loops between the first checks are for a holder on another core. If the holder waits
/// for this core, the `sched_yield()` between the later checks lets it run.
///
/// - Parameter isFree: Returns whether the lock is free at that moment.
@usableFromInline @inline(never) nonisolated func fluxAwaitTurn(_ isFree: () -> Bool) {
    for look in 1...1_000 {
        if look < 50 { fluxLinger(min(look * look, 400)) } else { sched_yield() }
        if isFree() { return }
    }
}
