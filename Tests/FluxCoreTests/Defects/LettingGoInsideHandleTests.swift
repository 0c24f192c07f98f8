import FluxCore
import Foundation
import TestSupport
import Testing

/// If the last reference to a store is dropped inside `handle`, the user's objects are released later, without a lock.
@Suite struct LettingGoInsideHandleTests {
    @Test func `An object in a state may use the library when it is released inside handle`() async {
        await #expect(processExitsWith: .success) {
            await Drawer.emptyMany { FluxStore(initialState: Holding(farewell: $0), dispatcher: nil) }
        }
    }

    @Test func `An object captured by a handler may use the library when it is released inside handle`() async {
        await #expect(processExitsWith: .success) {
            await Drawer.emptyMany { farewell in
                FluxStore(initialState: Counter(), dispatcher: nil).subscribe { _ in
                    withExtendedLifetime(farewell) {}
                }
            }
            await Drawer.emptyMany { farewell in
                let store = FluxStore(initialState: Counter(), dispatcher: nil)
                let subscription = store.subscribe { _ in withExtendedLifetime(farewell) {} }
                return [store as any Sendable, subscription]
            }
        }
    }

    @Test func `A deinit that dispatches inside a reaction's action stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let dispatcher = FluxDispatcher()
            let target = FluxStore(initialState: Counter(), dispatcher: nil)
            let store = FluxStore(initialState: Taking(), dispatcher: dispatcher)
            let reaction = store.handle.route(Counter.Action.self) { _ in .action(.take(Farewell(to: target))) }
            dispatcher.dispatch(action: Counter.Action.add(1))
            reaction.remove()
        }
        let text = result.said
        #expect(text.contains("FluxCore: dispatch(action:) was used inside FluxState.handle"), "\(text)")
    }

    @Test(.stress) func `A deferred release happens on another thread, however fast that thread is`() async {
        let (here, there) = (Locked(0), Locked(0))
        let ended = Gate()
        Thread.detachNewThread {
            let thread = ObjectIdentifier(Thread.current)
            for _ in 0..<1_000_000 {
                FluxPureCode.run("a test") {
                    let canary = Goodbye {
                        (ObjectIdentifier(Thread.current) == thread ? here : there).withLock { $0 += 1 }
                    }
                    FluxPureCode.after { withExtendedLifetime(canary) {} }
                }
            }
            // The thread waits for all releases: once it has ended, another thread could get its address and be
            // mistaken for it.
            while there.current + here.current < 1_000_000 { sched_yield() }
            ended.open()
        }
        await ended.opened()
        #expect(here.current == 0)
    }

    @Test func `A token of watch may be released inside handle`() async {
        let (canary, gone) = (Locked<Canary?>(nil), Gate())
        canary.withLock { $0 = Canary(gone) }
        let watched = FluxStore(initialState: Counter(), dispatcher: nil)
        func drawer() -> FluxStore<Drawer> {
            let token = watched.watch { [canary = canary.current] in withExtendedLifetime(canary) { nil } }
            return FluxStore(initialState: Drawer(token), dispatcher: nil)
        }
        let store = drawer()
        canary.withLock { $0 = nil }
        store.dispatch(action: .empty)
        await gone.opened()
    }

    @Test func `A dispatcher and its interceptors may be released inside handle`() async {
        let gone = Gate()
        func drawer() -> FluxStore<Drawer> {
            let (dispatcher, canary) = (FluxDispatcher(), Canary(gone))
            dispatcher.add(Intercept { action, next in withExtendedLifetime(canary) { next(action) } })
            return FluxStore(initialState: Drawer(dispatcher), dispatcher: nil)
        }
        drawer().dispatch(action: .empty)
        await gone.opened()
    }

    @Test(.timeLimit(.minutes(1)))
    func `A store released in a pause, after a nested pause, leaves its dispatcher afterwards`() async {
        let (outer, inner, gone) = (FluxDispatcher(), FluxDispatcher(), Gate())
        let store = Locked<FluxStore<Keeping>?>(FluxStore(initialState: Keeping(Canary(gone)), dispatcher: outer))
        // Uses a thread that does nothing else, because other work there could complete what was deferred.
        await onThreads(1) { _ in
            FluxDispatcher.paused([outer]) {
                FluxDispatcher.paused([inner]) {}
                store.withLock { $0 = nil }
            }
        }
        await gone.opened()
        #expect(outer.stores.isEmpty)
    }

    /// Dispatches when it is released, which is not allowed while a lock is held.
    private final class Parting: FluxStoreObserver {
        private let farewell: Farewell
        init(to store: FluxStore<Counter>) { farewell = Farewell(to: store) }
        func applied(_ change: FluxChange<Counter>, _ state: Counter, revision: UInt64?) -> (any FluxSettling)? { nil }
    }

    @Test func `An object removed from a store or a dispatcher is released once the lock is free`() {
        let target = FluxStore(initialState: Counter(), dispatcher: nil)
        let drawer = FluxStore(initialState: Drawer(Farewell(to: target)), dispatcher: nil)
        drawer.handle.withAccess { access in _ = access.replace(with: Drawer(0), by: Drawer.Action.empty) }
        #expect(target.state.count == 1, "the state before")
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let place = Locked<Parting?>(Parting(to: target))
        store.handle.withAccess { $0.observe(place.current!) }
        store.handle.withAccess { access in access.remove(place.withLock { $0.take() }!) }
        #expect(target.state.count == 2, "who looked on")
        func hold() {
            let farewell = Farewell(to: target)
            store.handle.withAccess { access in access.hold { _ in withExtendedLifetime(farewell) { true } } }
        }
        hold()
        store.handle.withAccess { $0.hold(by: nil) }
        #expect(target.state.count == 3, "who held changes back")
        let dispatcher = FluxDispatcher()
        func intercept() {
            let farewell = Farewell(to: target)
            dispatcher.add(Intercept { action, next in withExtendedLifetime(farewell) { next(action) } })
        }
        intercept()
        #expect(dispatcher.removeInterceptors { _ in true } == 1)
        #expect(target.state.count == 4, "an interceptor")
    }

    /// Reads where a store is attached when it is released, which is not allowed while that changes.
    private final class Asking: Sendable {
        let handle: FluxStoreHandle<Counter>
        let canary: Canary
        init(_ handle: FluxStoreHandle<Counter>, _ gone: Gate) { (self.handle, canary) = (handle, Canary(gone)) }
        deinit { _ = FluxStoreInfo(handle).dispatcher }
    }

    @Test(arguments: [false, true])
    func `A reaction's captures are released with the store, even if handle and registration are kept`(
        isAttached: Bool
    ) async {
        let gone = Gate()
        func kept() -> (FluxStoreHandle<Counter>, FluxRegistration) {
            let store = FluxStore(initialState: Counter(), dispatcher: isAttached ? FluxDispatcher() : nil)
            let asking = Asking(store.handle, gone)
            let registration = store.handle.route(LogOut.self) { action in
                .other(action) { _ in withExtendedLifetime(asking) { true } }
            }
            return (store.handle, registration)
        }
        let (handle, registration) = kept()
        await gone.opened()
        registration.remove()
        withExtendedLifetime(handle) {}
    }

    @Test func `A feature created for an ended store is not kept`() async {
        let gone = Gate()
        let handle = FluxStore(initialState: Counter(), dispatcher: nil).handle
        _ = handle.feature(Canary.self) { Canary(gone) }
        #expect(handle.featureIfAny(Canary.self) == nil)
        await gone.opened()
        withExtendedLifetime(handle) {}
    }

    @Test func `The captures of a watch closure are released with the store, even if its token is kept`() async {
        let (canary, gone) = (Locked<Canary?>(nil), Gate())
        canary.withLock { $0 = Canary(gone) }
        let store = Locked<FluxStore<Counter>?>(FluxStore(initialState: Counter(), dispatcher: nil))
        let token = store.current!.watch { [canary = canary.current] in withExtendedLifetime(canary) { nil } }
        canary.withLock { $0 = nil }
        store.withLock { $0 = nil }
        await gone.opened()
        token.unsubscribe()
    }

    @Test func `A token of watch does not keep the state`() async {
        let gone = Gate()
        let store = Locked<FluxStore<Keeping>?>(FluxStore(initialState: Keeping(Canary(gone)), dispatcher: nil))
        let token = store.current!.watch { nil }
        store.withLock { $0 = nil }
        await gone.opened()
        token.unsubscribe()
    }
}

/// A state that opens a gate when it is released.
private struct Keeping: FluxState {
    enum Action: FluxAction { case touch }

    let canary: Canary

    init(_ canary: Canary) { self.canary = canary }

    mutating func handle(action: Action) -> Keeping? { self }
}

private final class Goodbye: Sendable {
    private let say: @Sendable () -> Void

    init(_ say: @escaping @Sendable () -> Void) { self.say = say }

    deinit { say() }
}

/// A state whose actions dispatch when they are released.
private struct Taking: FluxState {
    enum Action: FluxAction { case take(Farewell) }

    mutating func handle(action: Action) -> Taking? { self }
}

/// A state whose content dispatches when it is released.
private struct Holding: FluxState {
    enum Action: FluxAction { case touch }

    let farewell: Farewell

    mutating func handle(action: Action) -> Holding? { self }
}
