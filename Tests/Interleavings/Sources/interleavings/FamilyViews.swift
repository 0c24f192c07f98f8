import Explorer
import Flux

/// A view of a family reads its members at one moment, and follows members that come and go.
enum FamilyViews {
    static let scenarios = [
        Scenario("c11-family-opened", "A view of a family is never torn while members open") { scene in
            let dispatcher = FluxDispatcher()
            let family = family(idle: .seconds(60)) { makeLog(dispatcher) }
            let view = FluxView(family) { $0.mapValues(\.entries.count) }
            scene.task("opens") {
                for key in ["a", "b"] { _ = try? await family.lease(key) }
                // Not before: a member that opens after an action does not have it.
                scene.thread("dispatches") { dispatcher.add(1) }
            }
            scene.thread("reads") {
                let counts = view.state
                scene.expect(Set(counts.values).count <= 1, "torn: \(counts)")
            }
            scene.finally { scene.expect(view.state, is: ["a": 1, "b": 1], "the view") }
        },
        Scenario("c11-family-swapped", "A view of a family never shows a member as it was before the read began") {
            scene in
            // Each member begins with a change, which makes up for the change to the member that has closed.
            let family = family(idle: .zero) {
                let store = makeLog()
                store.add(0)
                return store
            }
            let view = FluxView(family) { $0.mapValues(\.entries) }
            let lease = Noted<FluxLease<FluxStore<Log>>?>(nil)
            scene.task("closes one and opens another") {
                let first = try? await family.lease("a")
                scene.expect(view.state, is: ["a": [0]], "the view")
                first?.member.add(1)
                scene.thread("reads") {
                    let state = view.state
                    scene.expect(state["a"] == nil || state["a"] == [0, 1], "outdated: \(state)")
                }
                first?.release()
                lease.value = try? await family.lease("b")
            }
            scene.finally {
                scene.expect(view.state, is: ["b": [0]], "the view")
                lease.value = nil
            }
        },
        Scenario("c11-family-watched", "A watched view of a family follows each new member, and ends on the newest") {
            scene in
            let family = family(idle: .zero) { makeLog() }
            let view = FluxView(family) { $0.mapValues(\.entries.count) }
            let (seen, token) = (Noted<[[String: Int]]>([]), Noted<FluxSubscription?>(nil))
            let lease = Noted<FluxLease<FluxStore<Log>>?>(nil)
            scene.thread("subscribes") {
                token.value = view.subscribe(startingWithCurrent: true) { seen.value.append($0) }
            }
            scene.task("opens and changes") {
                // Another member of the same key follows it.
                try? await family.with("a") { $0.add(1) }
                lease.value = try? await family.lease("a")
                for entry in [2, 3] { lease.value?.member.add(entry) }
            }
            scene.finally {
                scene.expect(view.state, is: ["a": 2], "the view")
                scene.expect(seen.value.last, is: ["a": 2], "the last")
                token.value = nil
                lease.value = nil
            }
        },
    ]

    private static func family(
        idle: Duration, _ make: @escaping @Sendable () -> FluxStore<Log>
    ) -> FluxFamily<String, FluxStore<Log>> {
        FluxFamily(idle: idle, clock: ScenarioClock(isStopped: idle > .zero)) { (_: String) in make() }
    }
}
