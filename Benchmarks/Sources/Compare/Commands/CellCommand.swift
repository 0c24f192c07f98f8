import ArgumentParser
import Foundation

/// Runs one round of one cell; the program starts itself with this command as a child process.
struct CellCommand: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "cell", shouldDisplay: false)

    @Argument var workload: String
    @Argument var cell: Int
    @Option var seconds: Double

    func run() throws {
        guard let workload = Workload.all.first(where: { $0.name == workload }), workload.cells.indices.contains(cell)
        else { throw ValidationError("There is no cell \(cell) in \(workload).") }
        let readings = try workload.cells[cell].run(Effort(seconds: seconds))
        FileHandle.standardOutput.write(try JSONEncoder().encode(readings))
    }
}

extension Cell {
    /// Runs one round in its own process, and ends that process if it hangs.
    static func runApart(_ workload: Workload, cell index: Int, seconds: Double) throws -> [Reading] {
        let process = Process()
        let output = Pipe()
        process.executableURL = Bundle.main.executableURL
        process.arguments = ["cell", workload.name, String(index), "--seconds", String(seconds)]
        process.standardOutput = output
        try process.run()
        let limit = DispatchTime.now() + 120 + 10 * seconds
        DispatchQueue.global().asyncAfter(deadline: limit) {
            if process.isRunning { process.terminate() }
        }
        let data = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw CellFailure(workload: workload.name, cell: workload.cells[index].name)
        }
        return try JSONDecoder().decode([Reading].self, from: data)
    }
}

struct CellFailure: Error, CustomStringConvertible {
    let workload: String
    let cell: String

    var description: String { "\(workload), \(cell): the cell failed, or did not end; it says why above." }
}
