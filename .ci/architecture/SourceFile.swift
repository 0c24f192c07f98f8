import Foundation

/// The lines of a Swift file without what is written in comments and literals, so that looking for a word finds code.
struct SourceFile {
    var path: String
    /// Each line, with blanks in place of comments and of what stands between quotation marks.
    var lines: [String]
    /// How many lines are neither blank nor only a comment; a line within a literal counts.
    var linesOfCode: Int

    init(path: String) throws {
        self.path = path
        var scanner = Scanner(text: Array(try Data(contentsOf: URL(fileURLWithPath: path))))
        scanner.scan()
        lines = scanner.code.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
            .map { String(decoding: $0, as: UTF8.self) }
        if lines.last == "" { lines.removeLast() }
        linesOfCode = scanner.linesOfCode
    }

    /// Every place where an expression matches, with its line, the first being 1.
    func matches<Output>(of expression: Regex<Output>) -> [(line: Int, match: Regex<Output>.Match)] {
        let expression = expression.wordBoundaryKind(.simple).asciiOnlyWordCharacters()
        return lines.enumerated().flatMap { index, line in
            line.allSatisfy(\.isWhitespace) ? [] : line.matches(of: expression).map { (index + 1, $0) }
        }
    }
}

/// Tells code from comments and literals.
///
/// It knows nested comments, raw and long literals, and code within literals.
private struct Scanner {
    enum Context {
        /// Code; within a literal, with how many parentheses are open.
        case code(open: Int)
        case lineComment
        case blockComment(depth: Int)
        case literal(hashes: Int, long: Bool)
    }

    let text: [UInt8]
    var code: [UInt8] = []
    var linesOfCode = 0
    private var position = 0
    private var contexts = [Context.code(open: 0)]
    private var lineHasCode = false

    init(text: [UInt8]) {
        self.text = text
        code.reserveCapacity(text.count)
    }

    mutating func scan() {
        while position < text.count {
            if text[position] == UInt8(ascii: "\n") {
                endLine()
                continue
            }
            switch contexts[contexts.count - 1] {
            case .code(let open): scanCode(open: open)
            case .lineComment: skip(1, isCode: false)
            case .blockComment(let depth): scanBlockComment(depth: depth)
            case .literal(let hashes, let long): scanLiteral(hashes: hashes, long: long)
            }
        }
        if lineHasCode { linesOfCode += 1 }
    }

    private mutating func endLine() {
        if lineHasCode { linesOfCode += 1 }
        lineHasCode = false
        switch contexts[contexts.count - 1] {
        case .lineComment, .literal(_, long: false): contexts.removeLast()
        default: break
        }
        code.append(UInt8(ascii: "\n"))
        position += 1
    }

    private mutating func scanCode(open: Int) {
        if follows("//") {
            contexts.append(.lineComment)
            return skip(2, isCode: false)
        }
        if follows("/*") {
            contexts.append(.blockComment(depth: 1))
            return skip(2, isCode: false)
        }
        var hashes = 0
        while position + hashes < text.count, text[position + hashes] == UInt8(ascii: "#") { hashes += 1 }
        if follows("\"", after: hashes) {
            let long = follows("\"\"\"", after: hashes)
            contexts.append(.literal(hashes: hashes, long: long))
            return skip(hashes + (long ? 3 : 1), isCode: true)
        }
        switch text[position] {
        case UInt8(ascii: "("):
            contexts[contexts.count - 1] = .code(open: open + 1)
        case UInt8(ascii: ")") where open == 1 && contexts.count > 1:
            contexts.removeLast()
        case UInt8(ascii: ")"):
            contexts[contexts.count - 1] = .code(open: open - 1)
        default: break
        }
        take()
    }

    private mutating func scanBlockComment(depth: Int) {
        if follows("*/") {
            if depth == 1 {
                contexts.removeLast()
            } else {
                contexts[contexts.count - 1] = .blockComment(depth: depth - 1)
            }
            skip(2, isCode: false)
        } else if follows("/*") {
            contexts[contexts.count - 1] = .blockComment(depth: depth + 1)
            skip(2, isCode: false)
        } else {
            skip(1, isCode: false)
        }
    }

    private mutating func scanLiteral(hashes: Int, long: Bool) {
        let fence = String(repeating: "#", count: hashes)
        let end = (long ? "\"\"\"" : "\"") + fence
        if follows(end) {
            contexts.removeLast()
            skip(end.utf8.count, isCode: true)
        } else if follows("\\" + fence + "(") {
            contexts.append(.code(open: 1))
            skip(hashes + 2, isCode: true)
        } else if follows("\\" + fence) {
            skip(hashes + 1, isCode: true)
            // What is escaped is not looked at, but the end of a line has to be.
            if position < text.count, text[position] != UInt8(ascii: "\n") { skip(1, isCode: true) }
        } else {
            skip(1, isCode: true)
        }
    }

    private func follows(_ word: String, after distance: Int = 0) -> Bool {
        text[min(position + distance, text.count)...].starts(with: word.utf8)
    }

    /// Goes on over what is code and stays.
    private mutating func take() {
        if !isBlank(text[position]) { lineHasCode = true }
        code.append(text[position])
        position += 1
    }

    /// Goes on over what is not to be found.
    private mutating func skip(_ count: Int, isCode: Bool) {
        for _ in 0..<count {
            if isCode && !isBlank(text[position]) { lineHasCode = true }
            code.append(UInt8(ascii: " "))
            position += 1
        }
    }

    private func isBlank(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") || byte == UInt8(ascii: "\r")
    }
}
