import AccessLog
import ProgramTesting
import Testing

@Suite("PathCounts")
struct PathCountsTests {
    @Test("Counts are exact while there is room, and equal counts are ordered by name")
    func countsExactly() {
        var counts = PathCounts()
        for path in ["/b", "/a", "/c", "/c"] { counts.add(path) }
        #expect(counts.busiest(2).map(\.path) == ["/c", "/a"])
        #expect(counts.busiest(9).map(\.count) == [2, 1, 1])
        #expect(counts.busiest(0).isEmpty)
        #expect(counts.forgotten == 0)
    }

    @Test("With too many paths, a count and its possible error enclose the true count")
    func enclosesTruth() {
        var counts = PathCounts(maximumCount: 50)
        var truth: [String: Int] = [:]
        var random = SplitMix(seed: 1)
        for _ in 0..<20_000 {
            let isBusy = random.next() % 2 == 0
            let path = isBusy ? "/busy/\(random.next() % 5)" : "/scan/\(random.next() % 400)"
            counts.add(path)
            truth[path, default: 0] += 1
        }
        let kept = counts.busiest(.max)
        #expect(kept.count <= 50)
        #expect(counts.forgotten > 0)
        for entry in kept {
            #expect((entry.count...(entry.count + entry.missed)).contains(truth[entry.path] ?? 0), "\(entry)")
        }
        let names = Set(kept.map(\.path))
        for (path, count) in truth where count > counts.forgotten { #expect(names.contains(path)) }
        #expect(Set(kept.prefix(5).map(\.path)) == Set((0..<5).map { "/busy/\($0)" }))
    }

    @Test("The total size of the paths stays within its limit")
    func boundsSize() {
        var counts = PathCounts(maximumSize: 10_000)
        for index in 0..<1_000 { counts.add("/\(index)/" + String(repeating: "x", count: 500)) }
        #expect(counts.busiest(.max).reduce(0) { $0 + $1.path.utf8.count } <= 10_000)
        #expect(counts.forgotten > 0)
    }
}
