import Dispatch

/// Whether two references are to one queue; on Linux `DispatchQueue.main` is a new object at each use.
@usableFromInline
nonisolated func fluxIsSame(_ one: DispatchQueue?, _ other: DispatchQueue?) -> Bool {
    if one === other { return true }
    guard let one, let other else { return false }
    return FluxMainQueueMark.isMain(one) && FluxMainQueueMark.isMain(other)
}

nonisolated private enum FluxMainQueueMark {
    static let key: DispatchSpecificKey<Bool> = {
        let key = DispatchSpecificKey<Bool>()
        DispatchQueue.main.setSpecific(key: key, value: true)
        return key
    }()

    static func isMain(_ queue: DispatchQueue) -> Bool {
        queue.getSpecific(key: key) == true
    }
}
