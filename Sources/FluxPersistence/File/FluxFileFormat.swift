/// How a version and bytes are stored in a file: a head of 40 bytes, and then the bytes.
///
/// | bytes  |                                                        |
/// |--------|--------------------------------------------------------|
/// | 0..<8  | "FluxFile"                                             |
/// | 8..<16 | the version of this format, 1                          |
/// | 16..<24 | the version of the content                            |
/// | 24..<32 | how many bytes the content has                        |
/// | 32..<40 | FNV-1a, of 64 bits, over bytes 8..<32 and the content |
///
/// Numbers are stored lowest byte first. A later format has the same head, whatever follows it, so a file of a newer
/// format can be told from a damaged one.
nonisolated enum FluxFileFormat {
    static let mark: [UInt8] = Array("FluxFile".utf8)
    static let headSize = 40
    private static let format: UInt64 = 1

    /// Returns the head of a file with this content.
    static func head(version: Int, content: [UInt8]) -> [UInt8] {
        let numbers = bytes(format) + bytes(UInt64(bitPattern: Int64(version))) + bytes(UInt64(content.count))
        return mark + numbers + bytes(checksum(numbers, content))
    }

    /// Splits a file into version and content.
    ///
    /// - Parameters:
    ///   - file: All bytes of the file.
    ///   - path: Where the file is, for the error.
    /// - Returns: The version of the content, and the content.
    /// - Throws: What is wrong with the file.
    static func parse(_ file: [UInt8], at path: String) throws(FluxFileError) -> (version: Int, content: [UInt8]) {
        if file.isEmpty { throw FluxFileError(path, .empty) }
        if !isOurs(file) { throw FluxFileError(path, .foreign) }
        if file.count < headSize { throw FluxFileError(path, .truncated) }
        let version = Int(clamping: Int64(bitPattern: number(in: file, at: 16)))
        if number(in: file, at: 24) != UInt64(file.count - headSize) { throw FluxFileError(path, .truncated) }
        let content = Array(file[headSize...])
        let isWhole = number(in: file, at: 32) == checksum(Array(file[8..<32]), content)
        if !isWhole || number(in: file, at: 8) < format { throw FluxFileError(path, .damaged) }
        // Checked last: in a damaged file, this number may be anything.
        if number(in: file, at: 8) > format { throw FluxFileError(path, .newer(version: version)) }
        return (version, content)
    }

    /// Whether to read on after this beginning; one byte more than the head announces is enough to reject the file.
    static func goesOn(_ file: [UInt8]) -> Bool {
        isOurs(file) && (file.count < headSize || number(in: file, at: 24) >= file.count - headSize)
    }

    private static func isOurs(_ file: [UInt8]) -> Bool {
        file.prefix(mark.count).elementsEqual(mark.prefix(file.count))
    }

    private static func bytes(_ number: UInt64) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
    }

    private static func number(in bytes: [UInt8], at position: Int) -> UInt64 {
        (0..<8).reduce(0) { $0 | UInt64(bytes[position + $1]) << (8 * UInt64($1)) }
    }

    private static func checksum(_ head: [UInt8], _ content: [UInt8]) -> UInt64 {
        var sum: UInt64 = 0xcbf2_9ce4_8422_2325
        for part in [head, content] {
            for byte in part { sum = (sum ^ UInt64(byte)) &* 0x100_0000_01b3 }
        }
        return sum
    }
}
