// What the work of a command returns needs a reduce of its own.
// says: does not conform to protocol 'FluxCommandChanges'
struct Loading: FluxCommand {
    func execute(state: Shop, dependency: Void) async throws -> [String] { ["milk"] }
}
