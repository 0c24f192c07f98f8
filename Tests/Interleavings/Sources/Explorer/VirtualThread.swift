#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#endif

/// A thread of the scenario, a queue at work, or a Swift task up to its next suspension.
///
/// Each runs on a separate system thread, so thread-specific data works; only one of them runs at a time.
final class VirtualThread: @unchecked Sendable {
    let number: Int
    private(set) var name: String
    private let isTask: Bool
    private var isNamed = false
    private var body: (() -> Void)?
    private var carrier: Carrier?
    /// The lock that it is about to take.
    var wanted: Shared?
    /// Above 0, it waits only for locks, because it holds something that the explorer does not know.
    var unbroken = 0

    init(_ number: Int, _ name: String, isTask: Bool, _ body: @escaping () -> Void) {
        (self.number, self.name, self.isTask, self.body) = (number, name, isTask, body)
    }

    var isReady: Bool { wanted?.owner == nil }

    /// Takes the name that the Swift task was started with; must be called on the thread itself.
    func noteName() {
        if isNamed || !isTask { return }
        isNamed = true
        if let task = Scene.taskName { name = "task \(task)" }
    }

    /// Lets the thread continue; the caller then waits or ends.
    func resume() {
        if carrier == nil {
            carrier = Carrier.take()
            carrier!.thread = self
        }
        carrier!.baton.give()
    }

    func wait() { carrier!.baton.wait() }

    /// Runs the thread to its end, including the release of what its body captured.
    fileprivate func run() {
        var body = self.body
        self.body = nil
        body?()
        body = nil
        carrier = nil
    }
}

/// A system thread that runs one virtual thread after another.
final class Carrier: @unchecked Sendable {
    nonisolated(unsafe) private static var idle: [Carrier] = []

    let baton = Baton()
    var thread: VirtualThread?

    static func take() -> Carrier { idle.popLast() ?? Carrier() }

    private init() {
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        pthread_attr_setstacksize(&attributes, 512 * 1024)
        pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        #if canImport(Darwin)
            var identifier: pthread_t?
        #else
            var identifier = pthread_t()
        #endif
        let this = Unmanaged.passRetained(self).toOpaque()
        let status = pthread_create(&identifier, &attributes, { Carrier.begin($0) }, this)
        precondition(status == 0, "no thread could be created (\(status))")
    }

    private static func begin(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
        Unmanaged<Carrier>.fromOpaque(argument!).takeUnretainedValue().loop()
    }

    private func loop() -> Never {
        while true {
            baton.wait()
            let thread = self.thread!
            self.thread = nil
            thread.run()
            Carrier.idle.append(self)
            Explorer.shared.ended(thread)
        }
    }
}
