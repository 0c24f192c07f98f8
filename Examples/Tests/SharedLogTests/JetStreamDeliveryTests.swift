import Testing

@testable import JetStreamLog

/// How a reader interprets what it hears of its consumer.
@Suite(.timeLimit(.minutes(1))) struct JetStreamDeliveryTests {
    private let delivery = Delivery(silence: .seconds(2))

    private func told(_ status: Int) -> NatsConnection.Message {
        NatsConnection.Message(subject: "inbox", reply: "", body: [], status: status, description: "", counts: [:])
    }

    /// What comes next, while the time is kept at an instant.
    private func next(at instant: ContinuousClock.Instant) async -> String {
        let ticking = Task {
            while !Task.isCancelled {
                delivery.tick(instant)
                await Task.yield()
            }
        }
        defer { ticking.cancel() }
        return "\(await delivery.next())"
    }

    @Test("A request to a new consumer that not all servers know yet is repeated, and then answered")
    func isAskedAgain() async {
        let start = ContinuousClock.now
        for _ in 0..<3 {
            #expect(delivery.ask(for: 256) == 256)
            delivery.received(told(503))
            #expect(await next(at: start) == "nobody")
        }
        #expect(delivery.ask(for: 256) == 256)
        delivery.received(told(100))
        #expect(await next(at: start) == "entries([])")
        #expect(delivery.ask(for: 256) == 0)
    }

    @Test("A new consumer that stays unknown is given up after a while, however many requests it gets")
    func isGivenUp() async {
        let start = ContinuousClock.now
        #expect(delivery.ask(for: 256) == 256)
        delivery.received(told(503))
        #expect(await next(at: start) == "nobody")
        // To ask again does not restart the period.
        let asked = ContinuousClock.now
        #expect(delivery.ask(for: 256) == 256)
        delivery.received(told(503))
        #expect(await next(at: asked + .seconds(2)) == #"lost("no server knows the consumer")"#)
    }

    @Test("A consumer that has answered and is no longer known is given up at once")
    func hasGone() async {
        #expect(delivery.ask(for: 256) == 256)
        delivery.received(told(100))
        delivery.received(told(503))
        #expect(await next(at: .now) == #"lost("no server knows the consumer any more")"#)
    }
}
