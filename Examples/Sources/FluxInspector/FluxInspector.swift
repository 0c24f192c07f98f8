import FluxCore

/// Shows what happens inside a program, on pages of its own server: stores, events, actions and what each changed.
///
/// ```swift
/// let inspector = FluxInspector(limit: 1_000) { name, _ in name == "password" }
/// inspector.inspect(dispatcher)
/// inspector.inspect(store, name: "board welcome")
/// inspector.mount(on: router)  // http://localhost:8080/inspect; behind a proxy, with a token
/// ```
///
/// The page lists the open stores, and shows a line for each event and action as it arrives: its type and arguments,
/// the event that caused it, its duration and its revision. A line leads to the full arguments, to the difference that
/// it made to the state, and to the resulting state. Looking back does not affect the store.
///
/// The inspector keeps the newest `limit` lines, with the states before and after each announced change. They occupy
/// memory, and a state that is kept makes the next `handle` copy what it changes. The lines of a store are removed when
/// the store ends.
///
/// While a store's lock is held, the inspector only records a line. Texts and differences are computed when they are
/// viewed. A page fetches new lines ten times a second, so a dispatch has nothing to wake; a page that reads slowly
/// misses lines and delays nothing. A large value is shown in part, with marks where something is left out: at most
/// 10,000 values and lines of text, 64 levels deep. If both sides of a difference have more than 500 lines of their
/// own, only 500 of each are compared. So no value blocks the inspector, or keeps other requests waiting for long.
/// While nothing is inspected, or ``isEnabled`` is false, no store is observed.
///
/// Thread safety: may be used from any thread, but not inside `FluxState.handle(action:)`.
public final class FluxInspector: Sendable {
    /// An inspected store, which is not retained, or dispatcher, which is.
    private struct Subject: Sendable {
        let begin, end: @Sendable () -> Void
        /// Removes what the inspected store has for it; nothing of the subject is called after that.
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

    /// Creates an inspector, which is enabled.
    ///
    /// - Parameters:
    ///   - limit: The number of lines to keep, at least 1.
    ///   - hides: Returns whether to hide a value, wherever it occurs in an event, an action, a state or an error. It
    ///     receives the name of the property, of the case or of the associated value, or the key in a dictionary, and
    ///     the value. The name is empty for an element of an array, for a key and for the whole. Called on any thread
    ///     when a value is viewed.
    public init(limit: Int = 1_000, hiding hides: (@Sendable (_ name: String, _ value: Any) -> Bool)? = nil) {
        guard limit > 0 else {
            fatalError("FluxInspector(limit: \(limit)) would keep nothing. Pass a limit of 1 or more.")
        }
        recorder = Recorder(limit: limit)
        rendering = Rendering(hides: hides)
    }

    deinit {
        // If it is released while a lock is held, the inspector leaves once none is.
        FluxPureCode.after { [recorder, subjects = subjects.withLock { $0 }] in
            for subject in subjects.all.values {
                if subjects.isEnabled { subject.end() }
                subject.forget()
            }
            recorder.removeAll()
        }
    }

    /// Whether the inspector observes what it inspects.
    ///
    /// A disabled inspector observes nothing and keeps nothing, and a dispatch costs what it does without the
    /// inspector. Once enabled again, it starts over with everything inspected that still exists.
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

    /// Shows a store until it ends: what it applies, and the events of creators that send to it.
    ///
    /// A store that is also shown through its dispatcher is shown once.
    ///
    /// - Parameters:
    ///   - store: The store; it is not retained.
    ///   - name: Its name on the page; nil: its label or, without one, the type of its state.
    /// - Returns: A registration that ends the inspection; releasing the registration does not end it.
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

    /// Shows all stores of a dispatcher as they are attached and detached, and the events of creators that send there.
    ///
    /// - Parameters:
    ///   - dispatcher: The dispatcher; it is retained until the inspection ends.
    ///   - name: Its name on the page; nil: none.
    /// - Returns: A registration that ends the inspection; releasing the registration does not end it.
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
