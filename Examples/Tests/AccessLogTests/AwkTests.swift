import AccessLog
import Foundation
import ProgramTesting
import Testing

/// The recorded logs, counted by a program that has nothing in common with ours.
@Suite("Against awk")
struct AwkTests {
    /// Prints `lines N`, `bytes N`, `class D N` and `path N PATH`.
    ///
    /// It splits lines in its own way: nginx records no quote within a field, and in the common format the status and
    /// the size are the last two words.
    private static let program = #"""
        {
            if (format == "combined") { split($0, part, "\""); request = part[2]; split(part[3], word, " ") }
            else {
                word[1] = $(NF - 1); word[2] = $NF
                request = $0; sub(/^[^"]*"/, "", request); sub(/"[^"]*$/, "", request)
            }
            bytes += word[2]; classes[substr(word[1], 1, 1)]++
            if (request ~ /^[A-Z]+ [^ ].* HTTP\/[0-9.]+$/ || request ~ /^GET \/.*$/) {
                sub(/^[A-Z]+ /, "", request); sub(/ HTTP\/[0-9.]+$/, "", request)
                sub(/\?.*$/, "", request); sub(/^http:\/\/[^\/]*/, "", request)
                paths[request]++
            }
        }
        END {
            printf "lines %d\nbytes %d\n", NR, bytes
            for (digit in classes) printf "class %s %d\n", digit, classes[digit]
            for (path in paths) printf "path %d %s\n", paths[path], path
        }
        """#

    @Test("The totals of a recorded log equal those of awk", arguments: Fixture.allCases)
    func totals(fixture: Fixture) async throws {
        let format = fixture == .nginxCombined ? "combined" : "common"
        let awk = try await Command(
            program: URL(filePath: "/usr/bin/env"),
            ["LC_ALL=C", "awk", "-v", "format=\(format)", Self.program, fixture.path]
        ).finish()
        try #require(awk.status == 0, "\(awk.errors)")

        let watch = try await Command(["--json", "--paths", "1000", fixture.path]).finish()
        #expect(watch.status == 0)
        #expect(watch.errors == "")
        let report = try Report(watch.output)
        var ours = ["lines \(report.lines)", "bytes \(report.bytes)"]
        for (name, count) in report.statusClasses where count > 0 { ours.append("class \(name.prefix(1)) \(count)") }
        for path in report.busiestPaths { ours.append("path \(path.requests) \(path.path)") }
        #expect(ours.sorted() == awk.output.split(separator: "\n").map(String.init).sorted())
        #expect(report.lines > 150 && report.malformed == 0)
    }
}
