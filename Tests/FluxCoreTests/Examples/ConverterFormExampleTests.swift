import FluxCore
import Testing

// CONTRIBUTING.md shows the code down to the suite, as it stands here.

/// A converter whose actions come as a stream: the event ends with the stream, and a cancel ends both.
protocol StreamConverter: FluxActionConverter {
    associatedtype Event  // these three repeated, so that the compiler infers them from `actions`
    associatedtype Action
    associatedtype Dependency

    static func actions(for event: Event, dependency: Dependency) -> AsyncStream<Action>
}

extension StreamConverter {
    static var sharesConversions: Bool { false }  // each event has a stream of its own

    static func start(_ conversion: FluxConversion<Self>) {
        // Runs in a Swift task. Such tasks start in the order fired, and are cancelled with their events.
        conversion.perform {
            let actions = actions(for: conversion.event, dependency: conversion.dependency)
            for await action in actions { conversion.send(action) }
            conversion.end(.completed)
        }
    }

    /// The callback form is for code that knows a converter only as such; creators use `start`.
    static func convert(event: Event, dependency: Dependency, actionHandler: @escaping @Sendable (Action) -> Void) {
        _ = Task { for await action in actions(for: event, dependency: dependency) { actionHandler(action) } }
    }
}

@Suite(.timeLimit(.minutes(1))) struct ConverterFormExampleTests {
    /// The streams that a test has made, and which were asked for.
    private final class Feed: Sendable {
        let streams: [String: AsyncStream<Ticker.Action>]
        private let names = FluxLock<[String]>([])

        init(_ streams: [String: AsyncStream<Ticker.Action>]) { self.streams = streams }

        var asked: [String] { names.withLock { $0 } }

        func open(_ name: String) -> AsyncStream<Ticker.Action> {
            names.withLock { $0.append(name) }
            return streams[name] ?? AsyncStream { $0.finish() }
        }
    }

    private enum Ticker: StreamConverter {
        struct Event: FluxEvent { let name: String }
        struct Action: FluxAction { let price: Int }

        static func actions(for event: Event, dependency: Feed) -> AsyncStream<Action> { dependency.open(event.name) }
    }

    private struct Prices: FluxState {
        var all: [Int] = []

        mutating func handle(action: Ticker.Action) -> Prices? {
            all.append(action.price)
            return self
        }
    }

    private let store = FluxStore(initialState: Prices(), dispatcher: nil)
    private let stream: AsyncStream<Ticker.Action>
    private let source: AsyncStream<Ticker.Action>.Continuation
    private let feed: Feed
    private let creator: FluxActionCreator<Ticker>

    init() {
        (stream, source) = AsyncStream<Ticker.Action>.makeStream()
        feed = Feed(["tea": stream])
        creator = FluxActionCreator(dependency: feed, store: store)
    }

    @Test func sendsWhatTheStreamHasAndEndsWithIt() async {
        let task = creator.fire(.init(name: "tea"))
        for price in 1...3 { source.yield(.init(price: price)) }
        source.finish()
        #expect(await task.outcome.isCompleted)
        #expect(store.state.all == [1, 2, 3])
    }

    @Test func cancelsTheStreamWithTheEvent() async {
        let isOver = FluxLatch()
        source.onTermination = { end in if case .cancelled = end { isOver.open() } }
        let task = creator.fire(.init(name: "tea"))
        source.yield(.init(price: 1))
        for await event in task.events { if case .actionSent = event { break } }
        task.cancel()
        source.yield(.init(price: 2))
        #expect(await task.outcome.isCancelled)
        await isOver.wait()
        #expect(store.state.all == [1])
    }

    @Test func asksForTheStreamsInTheOrderFired() async {
        let names = (0..<100).map { "\($0)" }
        let task = creator.fire(names.map { .init(name: $0) })
        #expect(await task.outcome.isCompleted)
        #expect(feed.asked == names)
    }
}
