import FluxCore
import FluxPersistence

/// Stores in files, opened, changed and dropped: each time, everything dispatched before must be there.
struct FilesActivity: Activity {
    private static let files = 4
    private static let changes = 5

    let folder: String
    private let sums: Sums

    init(folder: String) {
        self.folder = folder
        sums = Sums(Self.files)
    }

    func round() async throws {
        for number in 0..<Self.files {
            let file = FluxFile(
                path: "\(folder)/file-\(number)", encode: { try Total.bytes($0) }, decode: { try Total.total($0) })
            let store = try await FluxStore.restored(from: file, initialState: Total(), dispatcher: nil)
            try promise("C10", "the sum in a file", store.state.sum, is: sums[number])
            let token = store.subscribe { [canary = Canary()] _ in withExtendedLifetime(canary) {} }
            for _ in 0..<Self.changes { store.dispatch(action: .add(1)) }
            sums.add(Self.changes, to: number)
            // Without the flush, the next store on the file waits for the pending saves.
            if Bool.random() { await store.flush() }
            withExtendedLifetime(token) {}
        }
    }
}
