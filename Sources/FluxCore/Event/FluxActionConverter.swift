/// Turns events into actions, asynchronously.
///
/// A converter is a namespace, not an object. What it needs from outside (a client, a clock, a database) is its
/// dependency, which the ``FluxActionCreator`` holds. A converter with `Dependency == Void` needs none.
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
/// Thread safety: `convert` runs on the queue of the creator, or on any queue given to `fire`. A converter has no
/// state.
nonisolated public protocol FluxActionConverter<Event, Action, Dependency>: SendableMetatype {
    /// The type of the events to convert.
    associatedtype Event: FluxEvent
    /// The type of the resulting actions.
    associatedtype Action: FluxAction
    /// The type of what the conversion needs from outside.
    associatedtype Dependency: Sendable

    /// Converts one event into no, one or many actions.
    ///
    /// It is called on the serial queue of the creator, or on the queue given to `fire`. It may keep the handler and
    /// call it later, from any thread, from several threads at once, and after the creator has been released. The
    /// conversion has finished when this function has returned and the handler has been released. A handler need not be
    /// called, but one that is never released keeps ``FluxActionCreator/flush()`` waiting.
    ///
    /// Actions sent before this function returns keep the order in which the events were fired (C3).
    ///
    /// - Parameters:
    ///   - event: The event that was fired.
    ///   - dependency: The creator's dependency.
    ///   - actionHandler: Dispatches an action; when it returns, the action has been applied (C2). An implementation
    ///     that calls it only on the calling thread may declare it without `@Sendable`.
    static func convert(event: Event, dependency: Dependency, actionHandler: @escaping @Sendable (Action) -> Void)

    /// Runs a conversion; by default it calls `convert(event:dependency:actionHandler:)`.
    ///
    /// A form of converter, such as ``FluxAsyncActionConverter``, implements it for all its converters.
    ///
    /// - Parameter conversion: The event, and the functions to send its actions; its release ends the conversion.
    static func start(_ conversion: FluxConversion<Self>)

    /// Whether an event that no scheduler holds begins to convert inside `fire`, on its thread; false by default.
    static var startsAtOnce: Bool { get }

    /// Whether events that are fired together may share one conversion; true by default.
    ///
    /// A form that ends its conversions by hand, or uses ``FluxConversion/event``, returns false.
    static var sharesConversions: Bool { get }

    /// Returns what schedulers and observers see of an event; by default the event itself.
    ///
    /// - Parameter event: The event, which a form of converter may have wrapped.
    /// - Returns: The event to show.
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

    /// By default schedulers and observers see the event itself.
    @inlinable public static func shown(_ event: Event) -> any FluxEvent { event }
}
