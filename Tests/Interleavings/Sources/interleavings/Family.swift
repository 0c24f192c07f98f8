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
        Scenario("family-goes", "A family that is released at any step closes each open member, once") { scene in
            let rooms = Rooms(scene)
            let family = Noted<FluxFamily<String, Rooms.Room>?>(rooms.family(idle: .seconds(60)))
            for name in ["one", "two"] {
                scene.task(name) {
                    try? await family.value?.with("a") { scene.expect($0.isOpen.value, "it is closed") }
                }
            }
            scene.thread("lets go") { family.value = nil }
            scene.finally { scene.expect(rooms.open.value, is: 0, "open") }
        },
        Scenario("family-flushed", "A closed member is released before the next one is created, even during a flush") {
            scene in
            let find = Noted<@Sendable () -> FluxStore<Log>?>({ nil })
            let family = FluxFamily(idle: .zero, clock: ScenarioClock(isStopped: true)) { (_: String) in
                scene.expect(find.value() == nil, "the last one is there")
                let store = makeLog()
                find.value = { [weak store] in store }
                return store
            }
            scene.task("uses") {
                _ = try? await family.with("a") { _ in
                    scene.task("flushes") { scene.expect(await family.flush(within: .seconds(1)), "not flushed") }
                }
                try? await family.with("a") { _ in }
            }
            scene.finally { find.value = { nil } }
        },
        Scenario(
            "family-dispatched", "An action that a dispatcher sends to a member that closes is saved once it has closed"
        ) { scene in
            let (disk, dispatcher, reached) = (Disk([7]), FluxDispatcher(), Noted(0))
            let family = FluxFamily(idle: .zero, clock: ScenarioClock(isStopped: true)) { (_: String) in
                try await FluxStore.restored(from: disk, initialState: Log(), dispatcher: dispatcher)
            }
            scene.task("uses and closes") {
                try? await family.with("a") { _ in
                    scene.thread("dispatches") { reached.value = dispatcher.dispatch(action: Log.Action.add(1)) }
                }
                try? await family.close("a")
                if reached.value == 0 { return }
                scene.expect(disk.entries, is: [7, 1], "saved")
            }
            scene.finally { scene.expect(family.keys, is: [], "open") }
        },
        Scenario("family-held", "An action that is held back is saved if it is applied before its member has gone") {
            scene in
            let disk = Disk([7])
            let family = FluxFamily(idle: .zero, clock: ScenarioClock(isStopped: true)) { (_: String) in
                try await FluxStore.restored(from: disk, initialState: Log(), dispatcher: nil)
            }
            let (held, isInTime) = (Noted<[FluxChange<Log>]>([]), Noted(false))
            let find = Noted<@Sendable () -> FluxStore<Log>?>({ nil })
            scene.task("holds") {
                // From here on the member may close, because only its handle is kept.
                let handle = try? await family.with("a") { store in
                    find.value = { [weak store] in store }
                    store.handle.withAccess { access in
                        access.hold(in: held)
                        access.apply(.action(.add(1)))
                    }
                    return store.handle
                }
                guard let handle else { return }
                handle.withAccess { $0.applyHeld(held) }
                // A change that is applied after the store has ended is never saved.
                isInTime.value = find.value() != nil
                if isInTime.value { scene.expect(await handle.failure() == nil, "it failed") }
            }
            scene.task("shuts down") {
                let report = await family.shutdown(within: .seconds(1))
                scene.expect(report.failed.isEmpty && report.late.isEmpty, "\(report)")
            }
            scene.finally {
                scene.expect(family.keys, is: [], "open")
                if isInTime.value { scene.expect(disk.entries, is: [7, 1], "saved") }
            }
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
