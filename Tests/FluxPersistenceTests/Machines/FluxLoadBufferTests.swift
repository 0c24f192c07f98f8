import FluxCore
import TestSupport
import Testing

@testable import FluxPersistence

/// Actions held back until a load has ended, driven with strings and integers.
@Suite struct FluxLoadBufferTests {
    typealias Hold = FluxLoadBuffer<String, Int>

    @Test func `While loading it keeps actions and those who wait; the end gives all back in order`() {
        let hold = Box(Hold())
        #expect(hold.it.keep("a") == true)
        #expect(hold.it.wait(10) == 1)
        #expect(hold.it.keep("b") == true)
        #expect(hold.it.wait(20) == 2)
        hold.it.withdraw(1)
        let release = hold.it.end(.restored)
        #expect(release.changes == ["a", "b"])
        #expect(release.waiters == [20])
        #expect(release.finish == nil)
        #expect(!hold.it.isLoading)
    }

    @Test func `After the end nothing is kept, and nobody waits`() {
        let hold = Box(Hold())
        _ = hold.it.end(.empty)
        #expect(hold.it.keep("a") == false)
        #expect(hold.it.wait(10) == nil)
        #expect(hold.it.close {} == true)
    }

    @Test func `Only the first end counts`() {
        let hold = Box(Hold())
        _ = hold.it.keep("a")
        _ = hold.it.end(.timedOut)
        let late = hold.it.end(.restored)
        #expect(late.changes.isEmpty)
        guard case .timedOut = hold.it.restoration else {
            Issue.record("\(hold.it.restoration)")
            return
        }
    }

    @Test func `A store that is let go while loading closes at the end`() {
        let hold = Box(Hold())
        #expect(hold.it.close {} == false)
        #expect(hold.it.keep("a") == true, "what is on its way still counts")
        #expect(hold.it.end(.empty).finish != nil)
    }
}
