// This reduce is not for what the work returns.
// says: does not conform to protocol 'FluxCommandChanges'
struct Loading: FluxCommand {
    func execute(state: Shop, dependency: Void) async throws -> [String] { ["milk"] }
    func reduce(state: inout Shop, output: String) { state.cart.append(output) }
}
