extension Workload {
    /// Every workload, in the order of the table.
    static let all: [Workload] = [
        dispatch, throughDispatcher, fireBatches, fireOne, fireAsync, rules, sharedLimit,
        oneSubscriber, manySubscribers, latestSubscriber, selectors, iterators, views,
        viewsOfMany, oneForMany,
        twoThreads, twoStores, manyThreads,
        otherTypes, footprint, growingArray, largeState, latency, fireLatency, idleFlush,
        durableOne, durableSome, durableMany, restart,
        middleware, instrumentation, names,
    ]
}
