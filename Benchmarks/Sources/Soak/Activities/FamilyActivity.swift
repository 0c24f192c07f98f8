import FluxCore
import FluxPersistence
import FluxRouting

/// A family of stores in files, with more keys than may be open at once, used by several tasks at a time.
struct FamilyActivity: Activity {
    private static let keys = 8

    private let folder: String
    private let family: FluxFamily<Int, FluxStore<Total>>
    private let sums = Sums(Self.keys)

    init(folder: String) {
        self.folder = folder
        family = Self.family(in: folder)
    }

    private static func family(in folder: String) -> FluxFamily<Int, FluxStore<Total>> {
        FluxFamily(idle: .milliseconds(5), limit: 4) { key in
            let file = FluxFile(
                path: "\(folder)/member-\(key)", encode: { try Total.bytes($0) }, decode: { try Total.total($0) })
            return try await FluxStore.restored(from: file, initialState: Total(), dispatcher: nil)
        }
    }

    func round() async throws {
        let watching = family.subscribe { [canary = Canary()] _ in withExtendedLifetime(canary) {} }
        try await visit(family)
        watching.unsubscribe()
        for key in 0..<Self.keys {
            let sum = try await family.with(key) { $0.state.sum }
            try promise("C10", "the sum of a member", sum, is: sums[key])
        }
        // Another family on the same files, after the first has closed its members.
        for key in 0..<Self.keys { try await family.close(key) }
        let other = Self.family(in: folder)
        try await visit(other)
        // The system keeps a cancelled sleep until its time is up, so a longer one would look like growth.
        let report = await other.shutdown(within: .seconds(10))
        try promise("C10", "members that could not be closed", report.failed.count + report.late.count, is: 0)
    }

    private func visit(_ family: FluxFamily<Int, FluxStore<Total>>) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for visitor in 0..<4 {
                group.addTask {
                    for step in 0..<4 {
                        let key = (visitor * 3 + step * 5) % Self.keys
                        try await family.with(key) { store in
                            store.dispatch(action: .add(1))
                            sums.add(1, to: key)
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
    }
}
