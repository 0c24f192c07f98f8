/// Lets an element pass unless it is as good as the last that passed: a pure state machine.
///
/// For those who miss some: what comes next may be as the last was, though what was skipped between them differed.
///
/// | input    | nothing has passed   | the last that passed is another | it is as good          |
/// |----------|----------------------|---------------------------------|------------------------|
/// | `passes` | yes; kept to compare | yes; kept to compare            | no; the last stays kept |
nonisolated struct FluxDistinct<Element: Sendable>: Sendable {
    /// Whether two are as good as equal; nil: all pass, and none is kept.
    private let isSame: (@Sendable (Element, Element) -> Bool)?
    private var last: Element?

    init(by isSame: (@Sendable (Element, Element) -> Bool)?, after last: Element? = nil) {
        self.isSame = isSame
        self.last = last
    }

    mutating func passes(_ element: Element) -> Bool {
        guard let isSame else { return true }
        if let last, isSame(last, element) { return false }
        last = element
        return true
    }
}

nonisolated extension FluxDelivery {
    /// Whether somebody who is slow may miss a change.
    var skips: Bool { kind != .every }
}

nonisolated extension FluxSource {
    /// Keeps what skips changes of a source that announces only what differs from handing over the same twice in a row.
    func distinct(
        _ delivery: FluxDelivery, _ handler: @escaping @Sendable (State) -> Void
    ) -> @Sendable (State) -> Void {
        guard delivery.skips, let isSame = feed.origin.difference else { return handler }
        let distinct = FluxLast(FluxDistinct(by: isSame))
        return { if distinct.value.passes($0) { handler($0) } }
    }
}
