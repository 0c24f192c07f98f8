/// Refers to an object that has to go.
public final class Weak: @unchecked Sendable {
    /// The object, while it is there.
    public private(set) weak var object: AnyObject?

    /// Refers to an object without keeping it.
    public init(_ object: AnyObject) { self.object = object }

    /// Waits until it is gone; the last reference may be on another thread for a moment.
    public func isGone() async -> Bool {
        for _ in 0..<2_000 where object != nil { try? await Task.sleep(for: .milliseconds(5)) }
        return object == nil
    }
}
