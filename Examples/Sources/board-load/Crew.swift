import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix

/// Sends commands, on its own loop, so that the watchers' reading does not delay them.
///
/// Unchecked: its mutable state is used on its loop only.
final class Crew: @unchecked Sendable {
    struct Sent: Sendable {
        var answered = 0
        /// How many commands got a wrong answer or none, by the answer or the error.
        var refusals: [String: Int] = [:]
        var refused: Int { refusals.values.reduce(0, +) }
        /// From the time the first command was due to the last answer.
        var seconds = 0.0
    }

    private let loop: any EventLoop
    private let commands: Commands
    private let server: SocketAddress
    /// The most connections there may be, and how many there are.
    private let limit = 64
    private var count = 0
    private var idle: [Caller] = []
    private var waiting: [(Caller?) -> Void] = []

    init(commands: Commands, server: SocketAddress, on loop: any EventLoop) {
        (self.commands, self.server, self.loop) = (commands, server, loop)
    }

    func close() async throws {
        try await loop.submit { for caller in self.idle { caller.close() } }.get()
    }

    // MARK: - Single requests

    /// Makes a request; throws if the answer is not a success, or does not come within 20 seconds.
    func ask(_ method: HTTPMethod, _ path: String, _ body: String? = nil) async throws -> Data {
        let answer = try await loop.flatSubmit {
            let promise = self.loop.makePromise(of: Caller.Answer.self)
            let limit = self.loop.scheduleTask(in: .seconds(20)) {
                promise.fail(Failure("\(method.rawValue) \(path) was not answered within 20 seconds"))
            }
            promise.futureResult.whenComplete { _ in limit.cancel() }
            self.whenIdle { caller in
                guard let caller else { return promise.fail(Failure("there is no connection")) }
                let answer = caller.ask(method, path, body.map { ByteBuffer(string: $0) })
                answer.assumeIsolated().whenComplete { result in
                    self.isFree(caller)
                    promise.completeWith(result)
                }
            }
            return promise.futureResult
        }.get()
        guard answer.status < 300 else {
            throw Failure("\(method.rawValue) \(path): \(answer.status) \(String(buffer: answer.body))")
        }
        return Data(answer.body.readableBytesView)
    }

    // MARK: - Commands at a rate

    /// Sends commands to the boards in turn, each when it is due, whether or not earlier ones were answered.
    func send(_ count: Int, rate: Int, to boards: [Target]) async throws -> Sent {
        let promise = loop.makePromise(of: Sent.self)
        let start = NIODeadline.now() + .milliseconds(100)
        try await loop.submit {
            var sent = Sent()
            for number in 0..<count {
                let time = start + .nanoseconds(Int64(number) * 1_000_000_000 / Int64(rate))
                let (path, body) = boards[number % boards.count].command(number)
                self.loop.assumeIsolated().scheduleTask(deadline: time) {
                    self.whenIdle { caller in
                        self.commands.note(number, sent: time.uptimeNanoseconds)
                        let answer =
                            caller?.ask(.POST, "\(path)?client=\(Commands.client(number))", body)
                            ?? self.loop.makeFailedFuture(Failure("there is no connection"))
                        answer.assumeIsolated().whenComplete { result in
                            self.isFree(caller)
                            switch result {
                            case .success(let answer) where answer.status == 200: sent.answered += 1
                            case .success(let answer):
                                sent.refusals["\(answer.status) \(String(buffer: answer.body))", default: 0] += 1
                            case .failure(let error): sent.refusals["\(error)", default: 0] += 1
                            }
                            guard sent.answered + sent.refused == count else { return }
                            sent.seconds = Double((NIODeadline.now() - start).nanoseconds) / 1e9
                            promise.succeed(sent)
                        }
                    }
                }
            }
            self.loop.scheduleTask(deadline: start + .seconds(Int64(count / rate) + 20)) {
                promise.fail(Failure("not all commands were answered within 20 seconds of the last"))
            }
        }.get()
        return try await promise.futureResult.get()
    }

    // MARK: - Connections

    /// Runs a body with a free connection as soon as there is one, or with nil if connecting fails.
    private func whenIdle(_ body: @escaping (Caller?) -> Void) {
        while let caller = idle.popLast() {
            // A server closes idle connections, so this one may close at any moment.
            if caller.isFresh { return body(caller) }
            caller.close()
            count -= 1
        }
        waiting.insert(body, at: 0)
        if count < limit { connect() }
    }

    private func isFree(_ caller: Caller?) {
        guard let caller else { return }
        if let next = waiting.popLast() { next(caller) } else { idle.append(caller) }
    }

    private func connect() {
        count += 1
        ClientBootstrap(group: loop).channelInitializer { channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHTTPClientHandlers()
                try channel.pipeline.syncOperations.addHandlers(
                    [NIOHTTPClientResponseAggregator(maxContentLength: 16 << 20), Caller(on: self.loop)])
            }
        }.connect(to: server).assumeIsolated().whenComplete { result in
            do {
                self.isFree(try result.get().pipeline.syncOperations.handler(type: Caller.self))
            } catch {
                self.count -= 1
                self.waiting.popLast()?(nil)
            }
        }
    }
}

/// A board that receives commands, with its lists and cards.
struct Target: Sendable {
    var path: String
    var lists: [String] = []
    var cards: [String] = []

    /// Returns the path of a command, and its body: one of several kinds.
    func command(_ number: Int) -> (path: String, body: ByteBuffer) {
        let (list, card) = (lists[number % lists.count], cards[number % cards.count])
        let body =
            switch number / 7 % 4 {
            case 0, 1: #"{"type":"renameList","list":"\#(list)","title":"List \#(number)"}"#
            case 2: #"{"type":"moveCard","card":"\#(card)","list":"\#(list)","index":0}"#
            default: #"{"type":"rename","title":"Board \#(number)"}"#
            }
        return ("\(path)/commands", ByteBuffer(string: body))
    }
}
