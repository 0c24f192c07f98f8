import Explorer
import Flux

/// A family has a member for each key, which is created once, and closed when nothing uses it.
enum Family {
    static let scenarios = [
        Scenario("family-made-once", "Two tasks that request a key at once get the same member") { scene in
            let rooms = Rooms(scene)
            let family = rooms.family(idle: .seconds(60))
            for name in ["one", "two"] {
                scene.task(name) {
                    try? await family.with("a") { room in
                        scene.expect(room.isOpen.value, "it is closed")
                        await yieldTask()
                        scene.expect(room.isOpen.value, "it was closed meanwhile")
                    }
                }
            }
            scene.finally { scene.expect(rooms.made.value, is: 1, "created") }
        },
        Scenario("family-close-and-lease", "No task gets a closed member, or a second one, while a close is under way")
        { scene in
            let rooms = Rooms(scene)
            let family = rooms.family(idle: .seconds(60))
            scene.task("uses") {
                for _ in 0..<2 { try? await family.with("a") { scene.expect($0.isOpen.value, "it is closed") } }
            }
            scene.task("closes") { try? await family.close("a") }
            scene.finally { scene.expect(rooms.open.value, is: family.keys.count, "open") }
        },
        Scenario("family-idle", "An unused member closes at once, and a request meanwhile gets a new one") { scene in
            let rooms = Rooms(scene)
            let family = rooms.family(idle: .zero)
            for name in ["one", "two"] {
                scene.task(name) {
                    guard let lease = try? await family.lease("a") else { return }
                    scene.expect(lease.member.isOpen.value, "it is closed")
                    scene.point()
                    scene.expect(lease.member.isOpen.value, "it was closed meanwhile")
                    lease.release()
                }
            }
            scene.finally { scene.expect(rooms.open.value, is: 0, "open") }
        },
        Scenario("family-shutdown", "A shutdown and a lease at the same time leave no member open") { scene in
            let rooms = Rooms(scene)
            let family = rooms.family(idle: .seconds(60))
            scene.task("uses") {
                do {
                    try await family.with("a") { scene.expect($0.isOpen.value, "it is closed") }
                } catch {
                    scene.expect(error is FluxFamilyError, "\(error)")
                }
            }
            scene.task("shuts down") {
                let report = await family.shutdown(within: .seconds(1))
                scene.expect(report.closed.count + report.late.count <= 1, "\(report)")
            }
            scene.finally { scene.expect(rooms.open.value, is: 0, "open") }
        },
        Scenario("family-cancelled", "A cancelled request for a member leaves nothing behind") { scene in
            let rooms = Rooms(scene)
            let family = rooms.family(idle: .zero)
            let asks = scene.task("asks") {
                try? await family.with("a") { scene.expect($0.isOpen.value, "it is closed") }
            }
            scene.thread("cancels") { asks() }
            scene.finally { scene.expect(rooms.open.value, is: 0, "open") }
        },
    ]
}

/// Creates rooms, and counts those that are open.
private final class Rooms: Sendable {
    final class Room: Sendable {
        let isOpen = Noted(true)
    }

    let scene: Scene
    let (made, open) = (Noted(0), Noted(0))

    init(_ scene: Scene) { self.scene = scene }

    func family(idle: Duration) -> FluxFamily<String, Room> {
        FluxFamily(idle: idle, clock: ScenarioClock(isStopped: idle > .zero)) { [self] (_: String) in
            scene.expect(open.value == 0, "two members of one key")
            made.value += 1
            open.value += 1
            await yieldTask()
            return Room()
        } close: { [self] room in
            room.isOpen.value = false
            await yieldTask()
            open.value -= 1
        }
    }
}
