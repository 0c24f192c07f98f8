import Dispatch
import Testing

@testable import FluxCore

/// Who of those who wait for each other can end.
@Suite struct FluxNeedsTests {
    /// Each with those it needs all of, and those it needs any of; returns who can end.
    func ending(_ needs: [Int: (all: [Int], any: [Int])]) -> [Int] {
        var machine = FluxNeeds<Int>()
        for id in needs.keys.sorted() { machine.add(id, all: needs[id]!.all, any: needs[id]!.any) }
        return needs.keys.sorted().filter { machine.canEnd($0) }
    }

    @Test func `Who needs nobody can end, and so can those who need only such`() {
        #expect(ending([1: ([], []), 2: ([1], []), 3: ([1, 2], [])]) == [1, 2, 3])
    }

    @Test func `Nobody in a circle can end, nor those who need one of it`() {
        #expect(ending([1: ([1], []), 2: ([], [])]) == [2])
        #expect(ending([1: ([2], []), 2: ([3], []), 3: ([1], []), 4: ([3], []), 5: ([], [])]) == [5])
    }

    @Test func `Of any, one is enough; of all and any, both are asked for`() {
        #expect(ending([1: ([], [2, 3]), 2: ([1], []), 3: ([], [])]) == [1, 2, 3])
        #expect(ending([1: ([], [2, 3]), 2: ([1], []), 3: ([1], [])]) == [])
        #expect(ending([1: ([2], [3]), 2: ([2], []), 3: ([], [])]) == [3])
    }

    @Test func `One that is not known can end, and is not known before it is added`() {
        var machine = FluxNeeds<Int>()
        #expect(!machine.knows(1))
        machine.add(1, all: [], any: [])
        #expect(machine.knows(1))
        let canEnd = machine.canEnd(2)
        #expect(canEnd)
    }

    @Test func `A long row is seen through at once`() {
        var row = FluxNeeds<Int>()
        for id in 0..<20_000 { row.add(id, all: id < 19_999 ? [id + 1] : [], any: []) }
        let canEnd = row.canEnd(0)
        #expect(canEnd)
    }
}

/// The queue that conversions prefer on systems that cannot start them at once.
@Suite struct FluxQueueExecutorTests {
    @Test func `Tasks start in the order made, on the queue, and stay there`() async {
        let key = DispatchSpecificKey<Bool>()
        let queue = DispatchQueue(label: "preferred")
        queue.setSpecific(key: key, value: true)
        let executor = FluxQueueExecutor(queue)
        let (order, elsewhere) = (Recorder<Int>(), Recorder<Int>())
        func note(_ number: Int) {
            if DispatchQueue.getSpecific(key: key) != true { elsewhere.record(number) }
            order.record(number)
        }
        let tasks = (0..<1_000).map { number in
            Task(executorPreference: executor) {
                note(number)
                await Task.yield()
                if DispatchQueue.getSpecific(key: key) != true { elsewhere.record(number) }
            }
        }
        for task in tasks { await task.value }
        #expect(order.values == Array(0..<1_000))
        #expect(elsewhere.values.isEmpty)
    }

    @Test func `A run that starts later starts on its queue, and ends its task`() async {
        let key = DispatchSpecificKey<Bool>()
        let queue = DispatchQueue(label: "preferred")
        queue.setSpecific(key: key, value: true)
        let places = Recorder<Bool>()
        let creator = FluxActionCreator<NestedConverter>(dispatcher: FluxDispatcher())
        let tasks = (0..<100).map { _ in FluxTask(of: 1) }
        for task in tasks {
            let event = NestedConverter.Event("x") { places.record(DispatchQueue.getSpecific(key: key) == true) }
            let run = FluxAsyncRun<NestedConverter>(creator.conversions, .passRetained(task), event)
            run.startLater(on: FluxQueueExecutor(queue))
        }
        for task in tasks { #expect(await task.outcome.name == "completed") }
        #expect(places.values == Array(repeating: true, count: 100))
    }
}
