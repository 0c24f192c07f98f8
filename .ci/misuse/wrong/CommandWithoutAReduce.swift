// What the work of a command returns needs a reduce of its own.
struct Loading: FluxCommand {
    func execute(state: Shop, dependency: Void) async throws -> [String] { ["milk"] }
}
