import AsyncHTTPClient
import NIOCore

/// A client of one node that appends, reads what the node has, and reads fresh, one operation after another.
struct Client {
    let number: UInt32
    let node: NodeProcess
    let keys: [String]
    let history: History
    let http: HTTPClient

    /// Returns a node's answer, or nil if there was none.
    private func send(_ method: String, _ path: String) async -> (status: UInt, text: String)? {
        do {
            var request = HTTPClientRequest(url: "\(node.address)/\(path)")
            request.method = .RAW(value: method)
            let response = try await http.execute(request, timeout: .seconds(15))
            return (response.status.code, String(buffer: try await response.body.collect(upTo: 1 << 26)))
        } catch {
            return nil
        }
    }

    /// Works until the task is cancelled.
    func run(seed: UInt64) async {
        var random = Random(seed: seed &+ UInt64(number))
        var last: UInt32 = 0
        var acknowledged: [String: UInt32] = [:]
        while !Task.isCancelled {
            let key = keys.randomElement(using: &random) ?? keys[0]
            var failed = false
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<6:
                last += 1
                failed = await append(last, to: key)
                if !failed { acknowledged[key] = last }
            case 6..<8: failed = await readLocally(key, atLeast: acknowledged[key] ?? 0)
            default: failed = await readFresh(key)
            }
            try? await Task.sleep(for: .milliseconds(failed ? 200 : Int.random(in: 5...25, using: &random)))
        }
    }

    private func append(_ action: UInt32, to key: String) async -> Bool {
        let item = UInt64(number) << 32 | UInt64(action)
        let call = history.now
        let answer = await send("POST", "keys/\(key)/\(item)")
        let numbers = answer?.text.split(separator: " ").compactMap { UInt64($0) } ?? []
        let what: History.Operation.Answer =
            switch answer?.status {
            case 200 where numbers.count == 2: .added(Int(numbers[0]), numbers[1])
            case 503: .refused
            default: .unknown
            }
        if answer?.status == 500 { history.violated("\(key): \(answer?.text ?? "")") }
        history.add(.init(client: number, key: key, item: item, call: call, end: history.now, answer: what))
        if case .added = what { return false }
        return true
    }

    /// Reads what the node has, which must include everything that was acknowledged to this client.
    private func readLocally(_ key: String, atLeast action: UInt32) async -> Bool {
        guard let numbers = await read("keys/\(key)?client=\(number)") else { return true }
        if numbers.last < UInt64(action) {
            history.violated(
                "\(key): client \(number) has added \(action), but reads only up to \(numbers.last) on its node")
        }
        history.addLocalRead()
        return false
    }

    private func readFresh(_ key: String) async -> Bool {
        let call = history.now
        guard let numbers = await read("keys/\(key)?fresh=1") else { return true }
        let digest = Digest(count: numbers.count, sum: numbers.sum)
        history.add(.init(client: number, key: key, item: nil, call: call, end: history.now, answer: .seen(digest)))
        return false
    }

    private func read(_ path: String) async -> (count: Int, sum: UInt64, last: UInt64)? {
        guard let answer = await send("GET", path), answer.status == 200 else { return nil }
        let numbers = answer.text.split(separator: " ").compactMap { UInt64($0) }
        return numbers.count == 3 ? (Int(numbers[0]), numbers[1], numbers[2]) : nil
    }

    /// Returns the whole list of a key at this node, fresh, or nil if it does not serve at present.
    func list(of key: String) async -> [UInt64]? {
        guard let answer = await send("GET", "keys/\(key)/all"), answer.status == 200 else { return nil }
        return answer.text.split(separator: " ").compactMap { UInt64($0) }
    }
}

/// Random numbers that are the same in every run with the same seed.
struct Random: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
