import Foundation
import Testing

@Suite struct ContributingTests {
    /// Each block of CONTRIBUTING.md stands in the file of its name, as it is.
    @Test func showsTheExamplesAsTheyAreTested() throws {
        let here = URL(filePath: #filePath).deletingLastPathComponent()
        let root = here.deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let page = try String(contentsOf: root.appending(path: "CONTRIBUTING.md"), encoding: .utf8)
        let blocks = page.components(separatedBy: "```swift\n").dropFirst().map {
            $0.components(separatedBy: "```")[0]
        }
        #expect(blocks.count == 3)
        let files = try ["Journal", "Scheduler", "ConverterForm"].map {
            try String(contentsOf: here.appending(path: "\($0)ExampleTests.swift"), encoding: .utf8)
        }
        for (block, file) in zip(blocks, files) { #expect(file.contains(block)) }
    }
}
