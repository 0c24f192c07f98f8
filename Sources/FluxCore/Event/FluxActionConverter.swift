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

    /// Runs a conversion: a form of converter, such as ``FluxAsyncActionConverter``, implements it for all of its kind.
    ///
    /// By default it calls `convert(event:dependency:actionHandler:)`.
    ///
    /// - Parameter conversion: The event, and what to do with it; the conversion has ended when it is released.
    static func start(_ conversion: FluxConversion<Self>)

    /// Whether a conversion begins before `fire` returns, on the thread that fires, if no scheduler holds it; false by default.
    static var startsAtOnce: Bool { get }

    /// Whether events that are fired together may share one conversion; true by default.
    ///
    /// A form that ends its conversions by hand, or uses ``FluxConversion/event``, says false.
    static var sharesConversions: Bool { get }

    /// What schedulers and observers see of an event; by default the event itself.
    ///
    /// - Parameter event: The event, which a form may have put something around.
    /// - Returns: What it stands for.
    static func shown(_ event: Event) -> any FluxEvent
}

nonisolated extension FluxActionConverter {
    /// Runs a conversion of the callback form.
    @inlinable public static func start(_ conversion: FluxConversion<Self>) {
        conversion.forEachEvent { event in
            convert(event: event, dependency: conversion.dependency) { conversion.send($0) }
        }
    }

    /// By default a conversion begins in its turn on the queue of the creator.
    @inlinable public static var startsAtOnce: Bool { false }

    /// By default events that are fired together share one conversion.
    @inlinable public static var sharesConversions: Bool { true }

    /// By default an event is seen as it is.
    @inlinable public static func shown(_ event: Event) -> any FluxEvent { event }
}
