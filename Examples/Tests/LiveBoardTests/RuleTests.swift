import FluxCore
import FluxEffects
import Testing

@testable import live_board

@Suite struct RuleTests {
    /// Runs until it is cancelled, like an edit on a slow disk.
    private enum Held: FluxAsyncActionConverter {
        typealias Event = Order
        typealias Action = BoardAction

        static func convert(
            event: Order, dependency: Void, send: @escaping @Sendable (BoardAction) -> Void
        ) async throws {
            try await Task.sleep(for: .seconds(600))
        }
    }

    @Test("An edit of a card is refused as busy while another is being saved, and other commands begin")
    func oneEditPerCard() async {
        let creator = FluxActionCreator<Held>(rules: [.custom(OneEditPerCard()) { $0.editedCard }])
        func order(_ command: BoardCommand) -> Order { Order(command: command, client: "somebody") }
        let edit = { order(.editCard(card: $0, title: "x", text: "", revision: 1)) }
        let begun = [edit("c1"), edit("c2"), order(.addCard(list: "l1", title: "x")), order(.undo)]
        let tasks = begun.map { creator.fire($0) }
        let second = edit("c1")
        #expect(await creator.fire(second).outcome.isDropped)
        #expect(second.answer.isBusy.withLock { $0 })
        creator.cancelAll()
        for task in tasks { #expect(await task.outcome.isCancelled) }
        #expect(begun.allSatisfy { !$0.answer.isBusy.withLock { $0 } })
    }
}
