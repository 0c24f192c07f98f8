import FluxCore
import FluxDiagnostics
import TestSupport

/// Records what it is notified of.
final class Watcher: FluxInstrumentation {
    enum Note: Equatable {
        case fired(FluxOrigin)
        case dispatched(FluxOrigin?)
        case applied(revision: UInt64?)
    }

    let notes = Recorder<Note>()
    let stores = Recorder<FluxStoreInfo>()

    func fired(_ event: any FluxEvent, origin: FluxOrigin) { notes.record(.fired(origin)) }
    func dispatched(_ action: any FluxAction, origin: FluxOrigin?) { notes.record(.dispatched(origin)) }
    func applied(_ action: any FluxAction, to store: FluxStoreInfo, revision: UInt64?, in duration: Duration) {
        stores.record(store)
        notes.record(.applied(revision: duration > .zero ? revision : 0))
    }
}
