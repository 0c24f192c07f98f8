import ArgumentParser
import FluxCore
import Foundation
import Synchronization

/// An activity that runs all the time, round after round.
protocol Activity: Sendable {
    /// Runs one round, and throws a ``BrokenPromise`` if something is not as promised.
    func round() async throws
}

/// The activities to choose from.
enum ActivityName: String, CaseIterable, ExpressibleByArgument {
    case stores, events, commands, files, family

    func make(in folder: String) -> any Activity {
        switch self {
        case .stores: StoresActivity()
        case .events: EventsActivity()
        case .commands: CommandsActivity()
        case .files: FilesActivity(folder: folder)
        case .family: FamilyActivity(folder: folder)
        }
    }
}

/// Runs all activities at the same time, in phases; between two phases everything rests, and is measured.
final class Soak: Sendable {
    /// How many samples are taken in all, unless a phase would then take less than a second.
    private static let phases = 240
    /// The seconds between the watchdog's checks, and how many of them may find that no round has ended: ten minutes.
    private static let tick = 5
    private static let patience = 120

    private let length: Duration
    private let rest: Duration
    private let folder: URL
    private let activities: [any Activity]
    private let progress = Mutex((rounds: 0, ticks: 0))

    init(length: Duration, rest: Duration, only: [ActivityName]) throws {
        (self.length, self.rest) = (length, rest)
        folder = FileManager.default.temporaryDirectory.appending(component: "soak-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        activities = only.map { [folder] in $0.make(in: folder.path) }
    }

    deinit {
        try? FileManager.default.removeItem(at: folder)
    }

    /// How many rounds have ended.
    var rounds: Int { progress.withLock { $0.rounds } }

    /// Runs until the time is up.
    ///
    /// - Parameter tell: Called from time to time with a line about the progress.
    /// - Returns: The samples, phase by phase.
    /// - Throws: A ``BrokenPromise``.
    func run(telling tell: (String) -> Void) async throws -> [Sample] {
        let watchdog = watch()
        defer { watchdog.cancel() }
        let clock = ContinuousClock()
        let start = clock.now
        let phase = max(length / Self.phases, .seconds(1))
        var samples: [Sample] = []
        repeat {
            try await self.phase(until: min(clock.now + phase, start + length))
            try await promise("C10", "all that was made has been let go of") { Canary.living == 0 }
            // By then the queues have released what they ran, and their threads rest.
            try await Task.sleep(for: .milliseconds(100))
            samples.append(.now(after: start.duration(to: clock.now)))
            if samples.count % 20 == 1 { tell("\(samples[samples.count - 1]), \(rounds) rounds") }
        } while clock.now < start + length
        return samples
    }

    private func phase(until end: ContinuousClock.Instant) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for activity in activities {
                group.addTask { [self] in
                    repeat {
                        try await activity.round()
                        progress.withLock { $0 = ($0.rounds + 1, 0) }
                        try await Task.sleep(for: rest)
                    } while ContinuousClock.now < end
                }
            }
            try await group.waitForAll()
        }
    }

    /// Ends the program if no round ends any more, because nothing that hangs can throw.
    ///
    /// It counts its checks and not the time: when the whole machine stands still, the count does too.
    private func watch() -> any DispatchSourceTimer {
        let timer = DispatchSource.makeTimerSource(queue: DispatchQueue(label: "watchdog"))
        timer.schedule(deadline: .now() + .seconds(Self.tick), repeating: .seconds(Self.tick))
        timer.setEventHandler { [weak self] in
            guard let self else { return }
            let ticks = progress.withLock { progress in
                progress.ticks += 1
                return progress.ticks
            }
            if ticks < Self.patience { return }
            print("error: no round has ended for \(ticks * Self.tick) s, after \(rounds) rounds")
            fflush(nil)
            exit(1)
        }
        timer.activate()
        return timer
    }
}
