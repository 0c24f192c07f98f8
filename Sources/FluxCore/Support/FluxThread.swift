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

/// What the library knows of one thread.
@usableFromInline nonisolated struct FluxThread {
    /// The store, or whoever else runs pure code under its lock on this thread, as an address that is only compared and
    /// described.
    @usableFromInline var pure: UnsafeRawPointer?
    /// What that code is, where it is not `handle(action:)`.
    var scope: StaticString?
    /// Whether it has dispatchers paused: what goes meanwhile ends after that.
    var isPausing = false
    /// Whether it may hold a lock, under which nothing of the user's may go.
    var mayHoldLock: Bool { pure != nil || isPausing }
    /// What is to be done once no such code runs, and no dispatcher is paused.
    @usableFromInline var later: [@Sendable () -> Void]?
    /// The work whose action is being dispatched on this thread, if any; whoever dispatches keeps it.
    var sending: Unmanaged<FluxTask>?
}

/// Finds the record of the calling thread.
///
/// Handles and dispatchers keep a copy in a field of their own, so that the hot path need not ask whether a global was
/// initialised.
@usableFromInline nonisolated struct FluxThreads: Sendable {
    @usableFromInline static let shared = FluxThreads()

    /// A `pthread_key_t`, in the same few bytes everywhere.
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

    /// The record; stops the program if pure code runs on the thread.
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
    /// Runs code that is pure, under the lock of an object; no such code runs on the thread yet.
    @inlinable @inline(__always) func purely<Result>(_ owner: AnyObject, _ body: () -> Result) -> Result {
        pointee.pure = UnsafeRawPointer(Unmanaged.passUnretained(owner).toOpaque())
        let result = body()
        pointee.pure = nil
        if pointee.later != nil { doLater() }
        return result
    }

    /// Has what was put off done, on another thread, for the locks of this one may still be held.
    @usableFromInline func doLater() {
        guard !pointee.mayHoldLock, pointee.later != nil else { return }
        // Safe: this thread only puts it there. It is taken out on the other, or what the closures hold might go here after all, where
        // that is faster than this one comes back from `async`.
        nonisolated(unsafe) var later = Swift.exchange(&pointee.later, with: nil)
        DispatchQueue.global().async {
            for body in Swift.exchange(&later, with: nil) ?? [] { body() }
        }
    }

    /// Runs a dispatch on behalf of some work.
    @usableFromInline func sending<Result>(_ task: FluxTask?, _ body: () -> Result) -> Result {
        let outer = pointee.sending
        pointee.sending = task.map { Unmanaged.passUnretained($0) }
        defer { pointee.sending = outer }
        return body()
    }

    var task: FluxTask? { pointee.sending?.takeUnretainedValue() }

    /// Whether a dispatch runs on behalf of this work, or of none; retains neither.
    @inline(__always) func isSending(_ task: FluxTask?) -> Bool {
        pointee.sending?.toOpaque() == task.map { Unmanaged.passUnretained($0).toOpaque() }
    }
}

/// Code that runs under a lock and so may use no store, dispatcher or creator, such as a selector or the condition of a rule.
///
/// `FluxState.handle(action:)` is such code. A program that breaks the rule stops with a message, rather than hang (C6).
///
/// Thread safety: all of it may be used from any thread.
nonisolated public enum FluxPureCode {
    /// Runs code of the user's that has to be pure.
    ///
    /// - Parameters:
    ///   - name: What it is, for the message: "a condition of FluxRule".
    ///   - body: The code.
    /// - Returns: What it returns.
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

    /// Runs a closure now, or soon on another thread if the calling thread may hold a lock: to let go of what is the user's.
    ///
    /// It may where it runs such code, or has dispatchers paused. The closure runs once that is over, so what it captured goes after
    /// whatever was let go of meanwhile.
    ///
    /// - Parameter body: What to run.
    public static func after(_ body: @escaping @Sendable () -> Void) {
        let thread = FluxThreads.shared.current
        if !thread.pointee.mayHoldLock { return body() }
        if thread.pointee.later?.append(body) == nil { thread.pointee.later = [body] }
    }

    /// Stops the program with a message if the calling thread runs pure code.
    ///
    /// - Parameter call: What was called, for the message.
    public static func forbid(_ call: StaticString) { FluxThreads.shared.requireImpure(call) }
}

/// Stops the program because code that has to be pure used a store, a dispatcher or a creator.
@usableFromInline nonisolated func fluxStopInPureCode(_ call: StaticString) -> Never {
    let thread = FluxThreads.shared.current.pointee
    var place = "\(thread.scope ?? "FluxState.handle(action:), or what is called with it")"
    if thread.scope == nil, let owner = thread.pure {
        let handle = Unmanaged<AnyObject>.fromOpaque(owner).takeUnretainedValue() as? any FluxStoreHandling
        place += handle.map { ": \($0.handlerName)" } ?? ""
    }
    fatalError(
        "FluxCore: \(call) was used inside \(place). That is pure: it runs under a lock, and may use only what it is given. "
            + "Do it in the converter, in a subscription, or after the dispatch; what it needs goes into the action.")
}

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

/// Waits for a lock to be free, without sleeping in its line, and for a while at most.
///
/// It looks soon and then less and less often, since a look that finds it taken is a call of the system and disturbs who holds it;
/// and who holds it runs on another core, or else has to be given this one.
///
/// - Parameter isFree: Whether it is, at that moment.
@usableFromInline @inline(never) nonisolated func fluxAwaitTurn(_ isFree: () -> Bool) {
    for look in 1...1_000 {
        if look < 50 { fluxLinger(min(look * look, 400)) } else { sched_yield() }
        if isFree() { return }
    }
}
