/// What was read for one cut through sources that have stores in common.
///
/// It reads each store once, however many of the views in between read it: what is dispatched to a store itself, past
/// its dispatcher, might otherwise come between two readings.
@usableFromInline
nonisolated final class FluxCut {
    private var readings: ContiguousArray<(core: AnyObject, reading: Any)> = []

    @usableFromInline
    init() {}

    /// What was read of a store before, or is now.
    func reading<Reading>(of core: AnyObject, _ read: () -> Reading) -> Reading {
        for known in readings where known.core === core {
            if let reading = known.reading as? Reading { return reading }
        }
        let reading = read()
        readings.append((core, reading))
        return reading
    }
}

/// What a state follows from, taken at one moment, so that the rest can be done outside the locks.
@usableFromInline
nonisolated struct FluxCapture<Element> {
    @usableFromInline
    enum Content {
        case known(Element)
        case computed(() -> Element)
    }

    @usableFromInline let stamp: UInt64
    @usableFromInline let content: Content

    @inlinable
    init(stamp: UInt64, _ content: Content) {
        self.stamp = stamp
        self.content = content
    }

    @inlinable var state: Element {
        switch content {
        case .known(let state): state
        case .computed(let compute): compute()
        }
    }
}
