import Dispatch

/// A store as a source.
nonisolated extension FluxStoreCore {
    @usableFromInline
    func enroll(_ wish: FluxWish, handler: @escaping @Sendable (State) -> Void) -> any FluxCancellable {
        admit(wish, handler)
    }

    @usableFromInline
    func read(into state: UnsafeMutablePointer<State>, _ stamp: UnsafeMutablePointer<UInt64>) {
        work(self, .read(state, stamp))
    }

    @usableFromInline var stamp: UInt64 {
        var stamp: UInt64 = 0
        withUnsafeMutablePointer(to: &stamp) { work(self, .stamp($0)) }
        return stamp
    }

    @usableFromInline
    func keep(_ leash: FluxLeash) {
        extras.keep(leash)
    }

    @usableFromInline var relay: DispatchQueue { extras.relay }

    @usableFromInline var difference: (@Sendable (State, State) -> Bool)? { nil }

    @usableFromInline var isStore: Bool { true }

    @usableFromInline var stores: ContiguousArray<ObjectIdentifier> { [ObjectIdentifier(self)] }

    @usableFromInline
    func capture(in cut: FluxCut?) -> FluxCapture<State> {
        let read = {
            var stamp: UInt64 = 0
            let state = self.state(&stamp)
            return FluxCapture(stamp: stamp, .known(state))
        }
        return cut?.reading(of: self, read) ?? read()
    }
}
