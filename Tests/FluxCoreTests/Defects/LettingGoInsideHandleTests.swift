import FluxCore
import Foundation
import TestSupport
import Testing

/// A store whose last reference goes inside `handle` lets go of what is the user's later, with no lock held.
@Suite struct LettingGoInsideHandleTests {
    @Test func `What a state holds may use the library when it goes`() async {
        await #expect(processExitsWith: .success) {
            await Drawer.emptyMany { FluxStore(initialState: Holding(farewell: $0), dispatcher: nil) }
        }
    }

    @Test func `What a handler captured may do so too`() async {
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

    @Test func `What a reaction made goes under a lock, so a deinit in it that dispatches gets the message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let dispatcher = FluxDispatcher()
            let target = FluxStore(initialState: Counter(), dispatcher: nil)
            let store = FluxStore(initialState: Taking(), dispatcher: dispatcher)
            let reaction = store.handle.route(Counter.Action.self) { _ in .action(.take(Farewell(to: target))) }
            dispatcher.dispatch(action: Counter.Action.add(1))
            reaction.remove()
        }
        let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
        #expect(text.contains("FluxCore: dispatch(action:) was used inside FluxState.handle"), "\(text)")
    }

    @Test(.stress) func `What is put off goes on another thread, however fast that is`() async {
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
            // It waits for them: once it has gone, another thread could get its address and be taken for it.
            while there.current + here.current < 1_000_000 { sched_yield() }
            ended.open()
        }
        await ended.opened()
        #expect(here.current == 0)
    }

    @Test func `What a token of watch closes over goes with the store`() async {
        let (canary, gone) = (Locked<Canary?>(nil), Gate())
        canary.withLock { $0 = Canary(gone) }
        let store = Locked<FluxStore<Counter>?>(FluxStore(initialState: Counter(), dispatcher: nil))
        let token = store.current!.watch { [canary = canary.current] in withExtendedLifetime(canary) { nil } }
        canary.withLock { $0 = nil }
        store.withLock { $0 = nil }
        await gone.opened()
        token.unsubscribe()
    }

    @Test func `A token of watch that is kept keeps no state`() async {
        let gone = Gate()
        let store = Locked<FluxStore<Keeping>?>(FluxStore(initialState: Keeping(Canary(gone)), dispatcher: nil))
        let token = store.current!.watch { nil }
        store.withLock { $0 = nil }
        await gone.opened()
        token.unsubscribe()
    }
}

/// A state that says so when it goes.
private struct Keeping: FluxState {
    enum Action: FluxAction { case touch }

    let canary: Canary

    init(_ canary: Canary) { self.canary = canary }

    mutating func handle(action: Action) -> Keeping? { self }
}

/// Says so when it goes.
private final class Goodbye: Sendable {
    private let say: @Sendable () -> Void

    init(_ say: @escaping @Sendable () -> Void) { self.say = say }

    deinit { say() }
}

/// A state whose actions dispatch when they go.
private struct Taking: FluxState {
    enum Action: FluxAction { case take(Farewell) }

    mutating func handle(action: Action) -> Taking? { self }
}

/// A state whose content dispatches when it goes.
private struct Holding: FluxState {
    enum Action: FluxAction { case touch }

    let farewell: Farewell

    mutating func handle(action: Action) -> Holding? { self }
}
