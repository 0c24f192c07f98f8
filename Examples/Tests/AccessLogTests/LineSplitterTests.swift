import AccessLog
import Testing

@Suite("LineSplitter")
struct LineSplitterTests {
    /// Splits chunks and returns the lines, the last of which may have no end.
    private func split(_ chunks: [[UInt8]]) -> [LogLine] {
        var splitter = LineSplitter(file: "log")
        var lines: [LogLine] = []
        for chunk in chunks { lines += splitter.split(chunk) }
        if let last = splitter.finish() { lines.append(last) }
        return lines
    }

    private func text(_ lines: [LogLine]) -> [String] {
        lines.map { String(decoding: $0.bytes, as: UTF8.self) }
    }

    @Test(
        "A line feed ends a line, and the last line needs none",
        arguments: [
            ("", []), ("a", ["a"]), ("a\n", ["a"]), ("a\nb", ["a", "b"]), ("\n\n", ["", ""]),
            ("a\r\n\nb\n", ["a\r", "", "b"]),
        ]
    )
    func splits(file: String, lines: [String]) {
        let found = split([Array(file.utf8)])
        #expect(text(found) == lines)
        #expect(found.map(\.number) == Array(1..<(lines.count + 1)))
    }

    @Test("The way a file is cut into chunks makes no difference", arguments: 1...9)
    func splitsChunks(size: Int) {
        let file = Array("first\n\nthird\r\na much longer fourth line\nlast".utf8)
        let chunks = stride(from: 0, to: file.count, by: size).map { Array(file[$0..<min($0 + size, file.count)]) }
        #expect(split(chunks) == split([file]))
        #expect(text(split(chunks)) == ["first", "", "third\r", "a much longer fourth line", "last"])
    }

    @Test("A line that is too long is cut and marked, whatever its chunks are", arguments: [1, 3, 40])
    func cutsLongLines(chunkCount: Int) {
        let limit = LineSplitter.longestLine
        for length in [limit, limit + 1, 3 * limit] {
            let part = (length + chunkCount - 1) / chunkCount
            let sizes = (0..<chunkCount).map { min(part, length - $0 * part) }
            var chunks = sizes.map { Array(repeating: UInt8(ascii: "x"), count: $0) }
            chunks.append(Array("\nnext".utf8))
            let lines = split(chunks)
            #expect(lines.map(\.bytes.count) == [min(length, limit), 4])
            #expect(lines.map(\.isTooLong) == [length > limit, false])
        }
    }
}
