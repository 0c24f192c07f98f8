/// Turns events into actions, asynchronously.
///
/// A converter is a namespace, not an object: what it needs from outside (a client, a clock, a database) comes as its
/// dependency, which the ``FluxActionCreator`` holds. `Dependency == Void` needs none.
///
/// ```swift
/// enum SearchConverter: FluxActionConverter {
///     enum Event: FluxEvent { case search(String) }
///     enum Action: FluxAction { case results([String]) }
///
///     static func convert(event: Event, dependency: Index, actionHandler: @escaping @Sendable (Action) -> Void) {
///         switch event {
///         case .search(let words): dependency.search(words) { actionHandler(.results($0)) }
///         }
///     }
/// }
/// ```
///
/// Thread safety: `convert` runs on the queue of the creator, or on any queue given to `fire`; it has no state of its own.
nonisolated public protocol FluxActionConverter<Event, Action, Dependency>: SendableMetatype {
    /// What happened.
    associatedtype Event: FluxEvent
    /// What is to change.
    associatedtype Action: FluxAction
    /// What the conversion needs from outside.
    associatedtype Dependency: Sendable

    /// Converts one event into no, one or many actions.
    ///
    /// It is called on the serial queue of the creator, or on the queue given to `fire`. It may keep the handler and
    /// call it later, from any thread, from many at once, and after the creator is gone. The conversion has finished
    /// when this function has returned and the handler has been released; a handler that is never called is fine, one
    /// that is never released keeps ``FluxActionCreator/flush()`` waiting.
    ///
    /// Actions sent before this function returns keep the order in which the events were fired (C3).
    ///
    /// - Parameters:
    ///   - event: The event that was fired.
    ///   - dependency: What the creator was made with.
    ///   - actionHandler: Dispatches an action; when it returns, the action has been applied (C2). An implementation may
    ///     declare it without `@Sendable` where it does not leave the calling thread.
    static func convert(event: Event, dependency: Dependency, actionHandler: @escaping @Sendable (Action) -> Void)

    /// How the library calls a converter of either form, compiled for its own types; never to be implemented.
    static func _convert(_ task: Unmanaged<FluxTask>, by conversions: AnyObject, _ spare: inout AnyObject?)
}

nonisolated extension FluxActionConverter {
    /// How the library calls a converter of this form.
    @inlinable
    public static func _convert(_ task: Unmanaged<FluxTask>, by conversions: AnyObject, _ spare: inout AnyObject?) {
        unsafeDowncast(conversions, to: FluxConversions<Self>.self).convert(task, &spare)
    }
}
