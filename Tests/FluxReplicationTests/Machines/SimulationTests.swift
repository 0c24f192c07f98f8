import TestSupport
import Testing

/// The guarantees of replicas, on nodes and a log where everything goes wrong that can.
@Suite struct SimulationTests {
    @Test("Whatever goes wrong, nodes agree, lose no acknowledged action, and repeat, reorder or invent none", .stress)
    func promises() async throws {
        var counts: [String: Int] = [:]
        // The simulation has one thread, in which the sanitizer finds nothing.
        let seeds = isSanitized ? 1_000 : 10_000
        for seed in 0..<UInt64(seeds) {
            var simulation = Simulation(seed: seed)
            do {
                try simulation.run(steps: 250)
            } catch {
                Issue.record("seed \(seed): \(error)")
                return
            }
            counts.merge(simulation.counts, uniquingKeysWith: +)
            // On two cores, other tests could otherwise wait for a thread until their time limits expire.
            await Task.yield()
        }
        // A fault that never happens is not tested.
        for what in [
            "acknowledged", "read", "unconfirmed", "not applied", "refused", "asked again", "passed over", "crashed",
            "taken over", "loaded", "trimmed", "saved", "flipped", "diverged", "objected", "read while diverging",
        ] {
            #expect(counts[what, default: 0] > seeds / 100, "\(what) has happened too rarely: \(counts)")
        }
    }
}
