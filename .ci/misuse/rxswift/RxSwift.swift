// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation

// As much of RxSwift as the recipe in the documentation needs, declared as it is there: no observer is Sendable.

public enum Event<Element> { case next(Element), error(any Error), completed }

public protocol Disposable { func dispose() }

public struct AnyObserver<Element> {
    private let handler: (Event<Element>) -> Void

    public init(eventHandler: @escaping (Event<Element>) -> Void) { handler = eventHandler }

    public func on(_ event: Event<Element>) { handler(event) }
    public func onNext(_ element: Element) { handler(.next(element)) }
    public func onError(_ error: any Error) { handler(.error(error)) }
    public func onCompleted() { handler(.completed) }
}

final class AnonymousDisposable: Disposable {
    private var action: (() -> Void)?

    init(_ action: @escaping () -> Void) { self.action = action }

    func dispose() {
        action?()
        action = nil
    }
}

public struct Disposables {
    public static func create(with dispose: @escaping () -> Void) -> any Disposable { AnonymousDisposable(dispose) }
    public static func create() -> any Disposable { AnonymousDisposable {} }
}

public class Observable<Element> {
    private let start: (AnyObserver<Element>) -> any Disposable

    init(_ start: @escaping (AnyObserver<Element>) -> any Disposable) { self.start = start }

    public static func create(_ subscribe: @escaping (AnyObserver<Element>) -> any Disposable) -> Observable<Element> {
        Observable(subscribe)
    }

    public func subscribe(
        onNext: ((Element) -> Void)? = nil, onError: ((any Error) -> Void)? = nil, onCompleted: (() -> Void)? = nil,
        onDisposed: (() -> Void)? = nil
    ) -> any Disposable {
        var hasEnded = false
        return start(
            AnyObserver { event in
                if hasEnded { return }
                switch event {
                case .next(let element): onNext?(element)
                case .error(let error):
                    hasEnded = true
                    onError?(error)
                case .completed:
                    hasEnded = true
                    onCompleted?()
                }
            })
    }
}
