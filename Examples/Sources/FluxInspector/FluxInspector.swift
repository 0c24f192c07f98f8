import FluxCore

/// Shows what happens inside a program, as pages of its own server: stores, events, actions, and what each changed.
///
/// ```swift
/// let inspector = FluxInspector(limit: 1_000) { name, _ in name == "password" }
/// inspector.inspect(dispatcher)
/// inspector.inspect(store, name: "board welcome")
/// inspector.mount(on: router)  // http://localhost:8080/inspect; behind a proxy, with a token
/// ```
///
/// The page has the stores that are open, and a line for each event and action as it comes: its type and arguments, the
/// event that it came from, how long it took, its revision. A line leads to all arguments, to the difference that it made to
/// the state, and to the state that it left: one may go back and look, and the store is left alone.
///
/// It keeps the newest `limit` lines, and with them the states before and after each change that was announced: so much
/// memory stays in use, and a state that is kept makes the next `handle` copy what it changes. What is of a store goes with
/// the store.
///
/// Under the lock of a store it notes a line, and no more. Texts and differences are made when somebody looks. A page takes
/// what is new ten times a second, so a dispatch has nobody to wake, and one that reads slowly misses lines and delays nobody.
/// Of a large value it shows as much as one can look at, and says where something is left out: at most 10,000 values and lines of
/// text, 64 levels deep, and 500 of each side where most of it differs. So no value stops it, nor keeps others waiting for long.
/// While nothing is inspected, or ``isEnabled`` is false, nothing looks on at the stores.
///
/// Thread safety: all of it may be used from any thread, but not inside `FluxState.handle(action:)`.
public final class FluxInspector: Sendable {
    /// What is inspected: a store, which is not kept, or a dispatcher, which is.
    private struct Subject: Sendable {
        let begin, end: @Sendable () -> Void
        /// Leaves nothing where it was inspected; nothing of it is called any more.
        let forget: @Sendable () -> Void
        let isGone: @Sendable () -> Bool
    }

    private struct Subjects: Sendable {
        var isEnabled = true
        var all: [Int: Subject] = [:]
        var newest = 0
    }

    let recorder: Recorder
    let rendering: Rendering
    private let subjects = FluxLock(Subjects())

    /// Makes an inspector, which is on.
    ///
    /// - Parameters:
    ///   - limit: How many lines to keep, at least 1.
    ///   - hides: Says whether a value is not to be shown, wherever it is in an event, an action, a state or an error. It gets
    ///     the name of the property, of the case or of the associated value, or the key in a dictionary, and the value; the
    ///     name is empty for an element of an array, for a key and for the whole. Called when somebody looks, on any thread.
    public init(limit: Int = 1_000, hiding hides: (@Sendable (_ name: String, _ value: Any) -> Bool)? = nil) {
        guard limit > 0 else {
            fatalError("FluxInspector(limit: \(limit)) would keep nothing. Give a limit of 1 or more.")
        }
        recorder = Recorder(limit: limit)
        rendering = Rendering(hides: hides)
    }

    deinit {
        // Let go of with some lock held it leaves once there is none.
        FluxPureCode.after { [recorder, subjects = subjects.withLock { $0 }] in
            for subject in subjects.all.values {
                if subjects.isEnabled { subject.end() }
                subject.forget()
            }
            recorder.removeAll()
        }
    }

    /// Whether it looks on at what it inspects.
    ///
    /// Switched off it looks on at nothing, keeps nothing, and a dispatch costs what it does without it. Switched on again it
    /// begins anew, with all that is inspected and still there.
    public var isEnabled: Bool {
        get { subjects.withLock { $0.isEnabled } }
        set {
            subjects.withLock { subjects in
                if subjects.isEnabled == newValue { return }
                subjects.isEnabled = newValue
                for subject in subjects.all.values { newValue ? subject.begin() : subject.end() }
            }
            if !newValue { recorder.removeAll() }
        }
    }

    /// Shows a store from now on, until it goes: what it applies, and the events of creators that send to it.
    ///
    /// A store that is also shown by way of its dispatcher is shown once.
    ///
    /// - Parameters:
    ///   - store: The store; it is not kept.
    ///   - name: What the page calls it; nil: by its label, or else by the type of its state.
    /// - Returns: What to end it by; letting go of that ends nothing.
    /// - Complexity: O(*n*) for *n* stores that are inspected one by one.
    @discardableResult
    public func inspect<State>(_ store: FluxStore<State>, name: String? = nil) -> FluxRegistration {
        let watch = StoreWatch.watch(of: store.handle, for: recorder)
        return add(
            Subject(
                begin: { [weak watch] in watch?.begin(name: name) },
                end: { [weak watch] in watch?.end() },
                forget: { [weak watch] in watch?.forget() },
                isGone: { [weak watch] in watch == nil }))
    }

    /// Shows all stores of a dispatcher, as they come and go, and the events of creators that send there.
    ///
    /// - Parameters:
    ///   - dispatcher: The dispatcher; kept until this is ended.
    ///   - name: What the page calls it; nil: nothing.
    /// - Returns: What to end it by; letting go of that ends nothing.
    /// - Complexity: O(*n*) for *n* attached stores.
    @discardableResult
    public func inspect(_ dispatcher: FluxDispatcher, name: String? = nil) -> FluxRegistration {
        let watch = DispatcherWatch(recorder, name: name)
        return add(
            Subject(
                begin: {
                    dispatcher.add(watch, priority: .max)
                    dispatcher.observe(watch)
                },
                end: {
                    dispatcher.removeInterceptors { $0 as? DispatcherWatch === watch }
                    dispatcher.remove(watch)
                },
                forget: {}, isGone: { false }))
    }

    private func add(_ subject: Subject) -> FluxRegistration {
        let number = subjects.withLock { subjects in
            subjects.all = subjects.all.filter { !$0.value.isGone() }
            subjects.newest += 1
            subjects.all[subjects.newest] = subject
            if subjects.isEnabled { subject.begin() }
            return subjects.newest
        }
        return FluxRegistration { [weak self] in
            self?.subjects.withLock { subjects in
                let subject = subjects.all.removeValue(forKey: number)
                if subjects.isEnabled { subject?.end() }
                subject?.forget()
            }
        }
    }
}
