/// How long to wait before what has failed is tried again: a conversion, a save.
///
/// Thread safety: a value.
nonisolated public struct FluxBackoff: Sendable {
    private let base: Swift.Duration
    private let factor: Double
    private let most: Swift.Duration?
    private let jitter: Double

    private init(base: Swift.Duration, factor: Double, most: Swift.Duration?, jitter: Double) {
        fluxRequire(base >= .zero, "FluxBackoff: a delay cannot be negative (\(base))")
        fluxRequire(factor >= 1, "FluxBackoff: a factor below 1 would make the delays shorter (\(factor))")
        fluxRequire(most.map { $0 >= base } ?? true, "FluxBackoff: the longest delay is below the first")
        fluxRequire((0...1).contains(jitter), "FluxBackoff: jitter is a part of the delay, from 0 to 1 (\(jitter))")
        self.base = base
        self.factor = factor
        self.most = most
        self.jitter = jitter
    }

    /// At once.
    public static var none: FluxBackoff { FluxBackoff(base: .zero, factor: 1, most: nil, jitter: 0) }

    /// The same delay before each attempt.
    ///
    /// - Parameter delay: The delay.
    /// - Returns: The backoff.
    public static func constant(_ delay: Swift.Duration) -> FluxBackoff {
        FluxBackoff(base: delay, factor: 1, most: nil, jitter: 0)
    }

    /// A delay that grows by a factor from attempt to attempt, up to a maximum.
    ///
    /// - Parameters:
    ///   - base: The delay before the second attempt.
    ///   - factor: What each further delay is multiplied by, at least 1.
    ///   - max: The longest delay; by default a minute, or `base` where that is longer.
    ///   - jitter: Which part of a delay is left to chance, from 0, none, to 1, all of it; so that many clients that
    ///     failed together do not come back together.
    /// - Returns: The backoff.
    public static func exponential(
        _ base: Swift.Duration,
        factor: Double = 2,
        max: Swift.Duration? = nil,
        jitter: Double = 0
    ) -> FluxBackoff {
        FluxBackoff(base: base, factor: factor, most: max ?? Swift.max(base, .seconds(60)), jitter: jitter)
    }

    /// The delay after a failed attempt.
    ///
    /// - Parameters:
    ///   - attempt: The attempt that failed, counted from 1.
    ///   - chance: A random number from 0 to 1.
    /// - Returns: How long to wait.
    public func delay(after attempt: Int, chance: Double) -> Swift.Duration {
        var delay = base
        if let most, base > .zero {
            // Compared before it is multiplied: the product could overflow.
            let growth = power(attempt - 1)
            delay = growth < most / base ? Swift.min(base * growth, most) : most
        }
        return jitter == 0 ? delay : delay * (1 - jitter * chance)
    }

    /// A power of the factor, by squaring: attempts may be many.
    private func power(_ exponent: Int) -> Double {
        var (result, square, exponent) = (1.0, factor, exponent)
        while exponent > 0 {
            if exponent % 2 == 1 { result *= square }
            square *= square
            exponent /= 2
        }
        return result
    }
}
