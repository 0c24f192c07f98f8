/// Turns events into actions by asynchronous work that may fail.
///
/// ```swift
/// enum SearchConverter: FluxAsyncActionConverter {
///     enum Event: FluxEvent { case search(String) }
///     enum Action: FluxAction { case results([String]), failed(String) }
///
///     static func convert(
///         event: Event, dependency: Index, send: @escaping @Sendable (Action) -> Void
///     ) async throws {
///         switch event {
///         case .search(let words): send(.results(try await dependency.search(words)))
///         }
///     }
///
///     static func action(for error: any Error, event: Event) -> Action? { .failed("\(error)") }
/// }
/// ```
///
/// Thread safety: conversions of one creator overlap. Each starts on the queue of the creator, or on the one given to
/// `fire`, and resumes wherever Swift's concurrency runs it.
nonisolated public protocol FluxAsyncActionConverter<Event, Action, Dependency>: FluxActionConverter {
    // Repeated from the callback form, to let the compiler infer them from the asynchronous one.
    /// The type of the events to convert.
    associatedtype Event
    /// The type of the resulting actions.
    associatedtype Action
    /// The type of what the conversion needs from outside.
    associatedtype Dependency

    /// Converts one event into no, one or many actions; the conversion has finished when this returns or throws.
    ///
    /// Conversions start in the order in which their events were fired. The actions that a conversion sends before it
    /// first suspends keep that order (C3). When the event is cancelled, the Swift task that runs this is cancelled
    /// too, and `send` does nothing from then on (C9).
    ///
    /// - Parameters:
    ///   - event: The event that was fired.
    ///   - dependency: The creator's dependency.
    ///   - send: Dispatches an action; when it returns, the action has been applied (C2). After this function has
    ///     returned, `send` dispatches nothing, and the creator's `onFailure` receives a ``FluxLateAction``.
    /// - Throws: Any error. It becomes the outcome of the task and the action that ``action(for:event:)`` returns, and
    ///   is passed to the creator's `onFailure`.
    static func convert(
        event: Event,
        dependency: Dependency,
        send: @escaping @Sendable (Action) -> Void
    ) async throws

    /// Returns the action to dispatch when a conversion has failed permanently; nil, the default, for none.
    ///
    /// - Parameters:
    ///   - error: The error that `convert` threw.
    ///   - event: The event that it was converting.
    /// - Returns: The action that reports the error to the state; nil for none.
    static func action(for error: any Swift.Error, event: Event) -> Action?
}

nonisolated extension FluxAsyncActionConverter {
    /// By default a failed conversion dispatches nothing.
    public static func action(for error: any Swift.Error, event: Event) -> Action? { nil }

    /// Each event has its own conversion, which ends when the work does.
    @inlinable public static var sharesConversions: Bool { false }

    /// Runs a conversion of the asynchronous form.
    @inlinable public static func start(_ conversion: FluxConversion<Self>) {
        conversion.perform { await run(conversion) }
    }

    @inlinable nonisolated(nonsending) static func run(_ conversion: FluxConversion<Self>) async {
        do {
            try await convert(event: conversion.event, dependency: conversion.dependency) { conversion.send($0) }
            conversion.complete()
        } catch {
            conversion.end(.failed(error)) { action(for: error, event: conversion.event) }
        }
    }

    /// The callback form, for code that knows a converter only as such; creators use the asynchronous form.
    public static func convert(
        event: Event,
        dependency: Dependency,
        actionHandler: @escaping @Sendable (Action) -> Void
    ) {
        FluxActionCreator<Self>(dependency: dependency, sending: actionHandler).fire(event)
    }
}

/// The error for an action that a converter sent after it had returned; the action was not dispatched.
///
/// Thread safety: a value.
nonisolated public struct FluxLateAction: Swift.Error, CustomStringConvertible {
    /// Describes the error and what to do instead, for a log.
    public let description: String

    @usableFromInline init(action: String) {
        description =
            "\(action) was sent after its conversion had returned, and was not dispatched. Await the work that sends it before returning."
    }
}
