/// What a change has to wake once no lock is held; for none and for one it allocates nothing.
@usableFromInline
nonisolated enum FluxWakes<Outlet> {
    case none
    case one(Outlet)
    case many(ContiguousArray<Outlet>)

    @inlinable
    mutating func append(_ outlet: Outlet) {
        switch self {
        case .none: self = .one(outlet)
        case .one(let first): self = .many([first, outlet])
        case .many(var outlets):
            self = .none
            outlets.append(outlet)
            self = .many(outlets)
        }
    }

    @inlinable @inline(__always)
    func forEach(_ body: (Outlet) -> Void) {
        switch self {
        case .none: break
        case .one(let outlet): body(outlet)
        case .many(let outlets): outlets.forEach(body)
        }
    }
}

/// Something to be woken, without its type.
@usableFromInline
nonisolated struct FluxWake {
    @usableFromInline let sleeper: AnyObject
    @usableFromInline let body: (AnyObject) -> Void

    /// - Parameters:
    ///   - sleeper: What is to be woken.
    ///   - body: Wakes it; captures nothing, so that it is the code specialised for the client's types.
    @inlinable
    init(_ sleeper: AnyObject, _ body: @escaping (AnyObject) -> Void) {
        self.sleeper = sleeper
        self.body = body
    }

    @usableFromInline
    func wake() {
        body(sleeper)
    }
}
