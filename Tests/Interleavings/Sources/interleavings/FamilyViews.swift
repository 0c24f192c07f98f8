import Explorer
import Flux

/// A view of a family reads its members at one moment, and follows members that come and go.
enum FamilyViews {
    static let scenarios = [
        Scenario("c11-family-opened", "A view of a family is never torn, even if it finds a new member") { scene in
            let (dispatcher, leases) = (FluxDispatcher(), Noted<[FluxLease<FluxView<[Int]>>?]>([]))
            let opening = Noted<@Sendable () -> Void>({})
            let family = FluxFamily(idle: .zero, clock: ScenarioClock(isStopped: true)) { (key: String) in
                let stores = (0...1).map { _ in makeLog(key == "b" ? dispatcher : nil) }
                if key == "b" { opening.value() }
                await yieldTask()
                return FluxView(stores) { $0.map(\.entries.count) }
            } close: { _ in
            }
            let view = FluxView(family) { $0 }
            opening.value = {
                scene.thread("reads") {
                    let counts = view.state["b"] ?? [0, 0]
                    scene.expect(counts[0] == counts[1], "torn: \(counts)")
                }
            }
            scene.task("opens") {
                // The first makes what the view knows outdated; the second comes when the view has begun to read.
                for key in ["a", "b"] { leases.value.append(try? await family.lease(key)) }
                scene.thread("dispatches") { dispatcher.add(1) }
            }
            scene.finally {
                scene.expect(view.state, is: ["a": [0, 0], "b": [1, 1]], "the view")
                opening.value = {}
                leases.value = []
            }
        },
        Scenario("c11-family-swapped", "A view of a family never shows a member as it was before the read began") {
            scene in
            // Each member begins with a change, which makes up for the change to the member that has closed.
            let family = family {
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
            let family = family { makeLog() }
            let view = FluxView(family) { $0.mapValues(\.entries) }
            let (seen, lease) = (Noted<[[String: [Int]]]>([]), Noted<FluxLease<FluxStore<Log>>?>(nil))
            let token = view.subscribe(startingWithCurrent: true) { seen.value.append($0) }
            scene.task("opens and changes") {
                // Another member of the same key follows it.
                try? await family.with("a") { $0.add(1) }
                lease.value = try? await family.lease("a")
                lease.value?.member.add(2)
            }
            scene.finally {
                scene.expect(view.state, is: ["a": [2]], "the view")
                withExtendedLifetime(token) { scene.expect(seen.value.last, is: ["a": [2]], "the last") }
                lease.value = nil
            }
        },
    ]

    private static func family(
        _ make: @escaping @Sendable () -> FluxStore<Log>
    ) -> FluxFamily<String, FluxStore<Log>> {
        FluxFamily(idle: .zero, clock: ScenarioClock()) { (_: String) in make() }
    }
}
