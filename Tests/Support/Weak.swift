/// A weak reference to an object that is expected to be released.
public final class Weak: @unchecked Sendable {
    /// The object, until it is released.
    public private(set) weak var object: AnyObject?

    /// Creates a reference that does not keep the object.
    public init(_ object: AnyObject) { self.object = object }

    /// Waits until the object is released, and returns whether it is.
    ///
    /// Another thread may hold the last reference for a short time.
    public func isGone() async -> Bool { await becomes { object == nil } }
}
