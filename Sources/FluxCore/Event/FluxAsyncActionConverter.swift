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
/// Thread safety: conversions of one creator overlap; each starts on the queue of the creator, or on the one given to
/// `fire`, and goes on wherever Swift's concurrency resumes it.
nonisolated public protocol FluxAsyncActionConverter<Event, Action, Dependency>: FluxActionConverter {
    // Repeated from the callback form, so that the compiler infers them from the asynchronous one.
    /// What happened.
    associatedtype Event
    /// What is to change.
    associatedtype Action
    /// What the conversion needs from outside.
    associatedtype Dependency

    /// Converts one event into no, one or many actions; the conversion has finished when this returns or throws.
    ///
    /// Conversions start in the order in which their events were fired; what one sends before it first suspends keeps
    /// that order (C3). When the event is cancelled, the Swift task that runs this is cancelled too, and `send` does
    /// nothing from then on (C9).
    ///
    /// - Parameters:
    ///   - event: The event that was fired.
    ///   - dependency: What the creator was made with.
    ///   - send: Dispatches an action; when it returns, the action has been applied (C2). Called after this function has
    ///     returned it dispatches nothing, and the creator's `onFailure` gets a ``FluxLateAction``.
    /// - Throws: Whatever goes wrong: it becomes the action that ``action(for:event:)`` returns, the outcome of the task,
    ///   and reaches the creator's `onFailure`.
    static func convert(
        event: Event,
        dependency: Dependency,
        send: @escaping @Sendable (Action) -> Void
    ) async throws

    /// The action to dispatch when a conversion has failed for good; nil, the default, for none.
    ///
    /// - Parameters:
    ///   - error: What `convert` threw.
    ///   - event: What it was converting.
    /// - Returns: The action that tells the state, if any.
    static func action(for error: any Swift.Error, event: Event) -> Action?
}

nonisolated extension FluxAsyncActionConverter {
    /// By default a failed conversion dispatches nothing.
    public static func action(for error: any Swift.Error, event: Event) -> Action? { nil }

    /// Each event has a conversion of its own, which ends when the work does.
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

    /// The callback form, for code that knows a converter only as such; creators use the asynchronous one.
    public static func convert(
        event: Event,
        dependency: Dependency,
        actionHandler: @escaping @Sendable (Action) -> Void
    ) {
        FluxActionCreator<Self>(dependency: dependency, sending: actionHandler).fire(event)
    }
}

/// An action that a converter sent after it had returned; it was not dispatched.
///
/// Thread safety: a value.
nonisolated public struct FluxLateAction: Swift.Error, CustomStringConvertible {
    /// What happened and what to do instead, for a log.
    public let description: String

    @usableFromInline init(action: String) {
        description =
            "\(action) was sent after its conversion had returned and was not dispatched: await what sends before returning."
    }
}
