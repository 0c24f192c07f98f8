/// The delays between attempts of something that has failed, such as a conversion or a save.
///
/// Thread safety: a value.
nonisolated public struct FluxBackoff: Sendable {
    private let base: Swift.Duration
    private let factor: Double
    private let most: Swift.Duration
    private let jitter: Double

    /// A backoff without delay: each attempt follows at once.
    public static var none: FluxBackoff { constant(.zero) }

    /// Returns a backoff with the same delay before each attempt.
    ///
    /// - Parameter delay: The delay.
    /// - Returns: The backoff.
    public static func constant(_ delay: Swift.Duration) -> FluxBackoff { exponential(delay, factor: 1, max: delay) }

    /// Returns a backoff whose delay grows by a factor from attempt to attempt, up to a maximum.
    ///
    /// - Parameters:
    ///   - base: The delay before the second attempt.
    ///   - factor: The factor by which each further delay grows, at least 1.
    ///   - max: The longest delay; by default a minute, or `base` if that is longer.
    ///   - jitter: The random part of a delay, from 0 (none) to 1 (all of it). With it, clients that failed together do
    ///     not all come back at the same time.
    /// - Returns: The backoff.
    public static func exponential(
        _ base: Swift.Duration, factor: Double = 2, max: Swift.Duration? = nil, jitter: Double = 0
    ) -> FluxBackoff {
        let most = max ?? Swift.max(base, .seconds(60))
        fluxRequire(base >= .zero, "FluxBackoff: a delay cannot be negative (\(base)). Give .zero or more.")
        fluxRequire(factor >= 1, "FluxBackoff: a factor below 1 would shorten the delays (\(factor)). Give 1 or more.")
        fluxRequire(most >= base, "FluxBackoff: the maximum is shorter than the first delay (\(most), \(base))")
        fluxRequire((0...1).contains(jitter), "FluxBackoff: jitter must be from 0 to 1 (\(jitter))")
        return FluxBackoff(base: base, factor: factor, most: base == .zero ? .zero : most, jitter: jitter)
    }

    /// Returns the delay after a failed attempt.
    ///
    /// - Parameters:
    ///   - attempt: The attempt that failed, counted from 1.
    ///   - chance: A number from 0 to 1, by default a random one.
    /// - Returns: How long to wait.
    /// - Complexity: O(log *n*) for attempt *n*.
    public func delay(after attempt: Int, chance: Double = .random(in: 0...1)) -> Swift.Duration {
        fluxRequire((0...1).contains(chance), "FluxBackoff: chance must be from 0 to 1 (\(chance))")
        var (delay, power, left) = (base, factor, Swift.max(attempt, 1) - 1)
        while left > 0 && delay < most {
            // Compare before multiplying: the product could overflow. A power that has overflowed is infinite.
            if !left.isMultiple(of: 2) { delay = power < most / delay ? Swift.min(delay * power, most) : most }
            power *= power
            left /= 2
        }
        // As a `Double`, the longest possible duration would round up by one, and overflow.
        return jitter == 0 ? delay : Swift.min(delay, .seconds(Int64.max)) * (1 - jitter * chance)
    }
}
