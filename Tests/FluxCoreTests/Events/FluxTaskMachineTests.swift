import TestSupport
import Testing

@testable import FluxCore

@Suite struct FluxTaskMachineTests {
    @Test(.stress) func `The cost of an action does not grow with the number of tasks that await the outcome`() async {
        await #expect(processExitsWith: .success) {
            func cost(of waiting: Int) -> Int {
                var machine = FluxTaskMachine()
                _ = machine.start()
                for _ in 0..<waiting { _ = machine.wait(FluxLatch(), isForEnd: true) }
                return processorTime {
                    for _ in 1...20_000 {
                        _ = machine.enter(isKept: false)
                        machine.leave(hasSent: true)
                        guard machine.tell() == nil else { fatalError("nobody looks at it") }
                    }
                }
            }
            _ = cost(of: 10)
            let (few, many) = (cost(of: 10), cost(of: 1_000))
            guard many < 10 * few else { fatalError("\(few) for 10, \(many) for 1,000") }
        }
    }
}
