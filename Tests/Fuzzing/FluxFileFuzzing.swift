// libFuzzer calls this with one input after another. `.ci/check-fuzzing` builds it with the sources, in one module.

/// Reads the input as a file, then saves and damages a part of it; neither may be read as something that it is not.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzFluxFile(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let input = Array(UnsafeBufferPointer(start: start, count: count))
    readAsFile(input)
    saveAndDamage(input[...])
    return 0
}

/// Stops unless input that is read as a file is, byte for byte, what a save writes for its version and content.
private func readAsFile(_ input: [UInt8]) {
    guard let (version, content) = try? FluxFileFormat.parse(input, at: "") else { return }
    if FluxFileFormat.head(version: version, content: content) + content != input {
        fatalError("a file is read that no save has written: version \(version), \(content.count) bytes")
    }
}

/// Saves a part of the input and damages it as the rest says; the damage must be detected unless nothing has changed.
private func saveAndDamage(_ input: ArraySlice<UInt8>) {
    var rest = input
    let version = Int(rest.popFirst() ?? 0)
    let damages = (0..<Int(rest.popFirst() ?? 0) % 4).map { _ in
        (
            kind: rest.popFirst() ?? 0, place: Int(rest.popFirst() ?? 0) << 8 | Int(rest.popFirst() ?? 0),
            rest.popFirst() ?? 0
        )
    }
    let content = Array(rest)
    let whole = FluxFileFormat.head(version: version, content: content) + content
    guard let read = try? FluxFileFormat.parse(whole, at: ""), read == (version, content) else {
        fatalError("what was saved is not read")
    }
    var file = whole
    for (kind, place, size) in damages { damage(&file, kind, at: place, Int(size)) }
    if file == whole { return }
    if let wrong = try? FluxFileFormat.parse(file, at: "") {
        fatalError("damage is not found out: \(damages) make version \(wrong.version), \(wrong.content.count) bytes")
    }
}

/// Damages a file as disks, and people who copy files, do.
private func damage(_ file: inout [UInt8], _ kind: UInt8, at place: Int, _ size: Int) {
    if file.isEmpty { return }
    let start = place % file.count
    let end = min(start + size, file.count)
    switch kind % 6 {
    case 0: file[start] ^= 1 << UInt8(size % 8)
    case 1: file.removeSubrange(start...)
    case 2: for index in start..<end { file[index] = 0 }
    case 3: file += [UInt8](repeating: 0, count: size)
    case 4: for (index, byte) in file[start..<end].reversed().enumerated() { file[start + index] = byte }
    default: file.removeSubrange(start..<end)
    }
}
