import FluxCore
import FluxObservation
import Foundation
import Synchronization

/// Every way to watch a store.
enum Watching: CaseIterable {
    case every, latest, newest, oldest, failing, selector, oldAndNew, anyOf, main
    case states, everyState, newestStates, failingStates, values, everyValue
    case view, viewStates, viewOfView, part, mirror

    /// Whether it receives each change; the others may skip some.
    var isLossless: Bool {
        switch self {
        case .every, .newest, .oldest, .failing, .selector, .oldAndNew, .anyOf, .main: true
        case .everyState, .newestStates, .failingStates, .everyValue: true
        case .latest, .states, .values, .view, .viewStates, .viewOfView, .part, .mirror: false
        }
    }
}

/// Records what one watcher has seen of a count that grows by one at a time.
final class Tally: Sendable {
    private struct State {
        var first: Int?
        var last = 0
        var calls = 0
        var isInside = false
        var hasEnded = false
        var fault: String?
    }

    private let state = Mutex(State())

    var last: Int { state.withLock { $0.last } }

    func see(_ count: Int) {
        state.withLock { state in
            if state.isInside { state.fault = "two calls of a handler at once" }
            if state.hasEnded { state.fault = "a call after the end" }
            state.isInside = true
        }
        // A second call, if there were one, could start here.
        sched_yield()
        state.withLock { state in
            if state.first != nil && count <= state.last { state.fault = "\(count) after \(state.last)" }
            state.first = state.first ?? count
            state.last = count
            state.calls += 1
            state.isInside = false
        }
    }

    func end() { state.withLock { $0.hasEnded = true } }

    /// Throws unless everything up to a count was seen: each value if it is lossless, and none twice or backwards.
    func check(_ name: String, isLossless: Bool, to count: Int) throws {
        let state = state.withLock { $0 }
        if let fault = state.fault { throw BrokenPromise("C5 or C7", "\(name): \(fault)") }
        try promise("C5", "\(name), the last count", state.last, is: count)
        if isLossless, let first = state.first {
            try promise("C5", "\(name), calls from \(first) to \(count)", state.calls, is: count - first + 1)
        }
    }
}

/// A running way to watch; it keeps a canary, as handlers keep what they use.
struct Watcher: Sendable {
    let kind: Watching
    let tally = Tally()
    private let ending: @Sendable () async -> Void

    init(_ kind: Watching, of store: FluxStore<Board>) async {
        self.kind = kind
        let see: @Sendable (Int) -> Void = { [tally, canary = Canary()] count in
            withExtendedLifetime(canary) { tally.see(count) }
        }
        ending = await Self.start(kind, store, see)
    }

    /// Ends it: any later call would be one too many.
    func end() async {
        await ending()
        tally.end()
    }

    private static func start(
        _ kind: Watching, _ store: FluxStore<Board>, _ see: @escaping @Sendable (Int) -> Void
    ) async -> @Sendable () async -> Void {
        let room = 1 << 20
        switch kind {
        case .every: return token(store.subscribe(startingWithCurrent: true) { see($0.count) })
        case .latest: return token(store.subscribe(.latest, startingWithCurrent: true) { see($0.count) })
        case .newest:
            return token(store.subscribe(.buffered(newest: room), startingWithCurrent: true) { see($0.count) })
        case .oldest:
            return token(store.subscribe(.buffered(oldest: room), startingWithCurrent: true) { see($0.count) })
        case .failing:
            return token(
                store.subscribe(failingAfter: room, startingWithCurrent: true) { result in
                    if case .success(let state) = result { see(state.count) }
                })
        case .selector: return token(store.subscribe(to: \.count, startingWithCurrent: true) { see($0) })
        case .oldAndNew: return token(store.subscribe(to: \.count) { old, new in see(old < new ? new : -1) })
        case .anyOf:
            return token(store.subscribe(toAnyOf: \.count, \.disorder) { state, _ in see(state.count) })
        case .main: return token(store.subscribe(on: .main, startingWithCurrent: true) { see($0.count) })
        case .states: return sequence(store.states) { see($0.count) }
        case .everyState: return sequence(store.states(.every)) { see($0.count) }
        case .newestStates: return sequence(store.states(.buffered(newest: room))) { see($0.count) }
        case .failingStates: return sequence(store.states(failingAfter: room)) { see($0.count) }
        case .values: return sequence(store.values(of: \.count), see)
        case .everyValue: return sequence(store.values(of: \.count, .every), see)
        case .view:
            let view = FluxView(store, store) { $0.count == $1.count ? $0.count : -1 }
            return token(view.subscribe(startingWithCurrent: true, see), keeping: view)
        case .viewStates: return sequence(FluxView(store) { $0.count }.states, see)
        case .viewOfView:
            let view = FluxView(store) { $0.count }.view { $0 * 2 }
            return token(view.subscribe(.latest, startingWithCurrent: true) { see($0 / 2) }, keeping: view)
        case .part:
            let view = store.view(\.count)
            return token(view.subscribe(to: { $0 }, startingWithCurrent: true) { see($0) }, keeping: view)
        case .mirror: return await mirror(store, see)
        }
    }

    private static func token(
        _ token: FluxSubscription, keeping view: (any Sendable)? = nil
    ) -> @Sendable () async -> Void {
        {
            await token.finish()
            withExtendedLifetime(view) {}
        }
    }

    private static func sequence<Element, Failure>(
        _ states: FluxStates<Element, Failure>, _ see: @escaping @Sendable (Element) -> Void
    ) -> @Sendable () async -> Void {
        // Watching starts here, and not when the task gets its turn.
        nonisolated(unsafe) let first = states.makeAsyncIterator()
        let task = Task {
            var iterator = first
            while let state = try? await iterator.next() { see(state) }
        }
        return {
            task.cancel()
            await task.value
        }
    }

    /// Reads what a SwiftUI view would show, from time to time.
    @MainActor
    private static func mirror(
        _ store: FluxStore<Board>, _ see: @escaping @Sendable (Int) -> Void
    ) -> @Sendable () async -> Void {
        let mirror = store.observed()
        let task = Task { @MainActor in
            var last = -1
            while !Task.isCancelled {
                if mirror.state.count != last {
                    last = mirror.state.count
                    see(last)
                }
                try? await Task.sleep(for: .milliseconds(1))
            }
        }
        return {
            task.cancel()
            await task.value
        }
    }
}
