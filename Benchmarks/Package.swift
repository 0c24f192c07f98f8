// swift-tools-version: 6.2
import PackageDescription

/// Modules of the library.
func flux(_ modules: String...) -> [Target.Dependency] {
    modules.map { .product(name: $0, package: "FluxCore") }
}

// A package of its own, so that the library keeps no dependency.
let package = Package(
    name: "Benchmarks",
    platforms: [.macOS(.v15)],
    products: [
        .executable(name: "compare", targets: ["Compare"]),
        .executable(name: "allocations", targets: ["Allocations"]),
        .executable(name: "soak", targets: ["Soak"]),
    ],
    dependencies: [
        .package(name: "FluxCore", path: ".."),
        .package(name: "FluxCoreExamples", path: "../Examples"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.5.0"),
        .package(url: "https://github.com/OpenCombine/OpenCombine", from: "0.14.0"),
        .package(url: "https://github.com/apple/swift-async-algorithms", from: "1.1.0"),
        // Without its traits it needs no allocator of its own; allocations are counted by the target below.
        .package(url: "https://github.com/ordo-one/benchmark", from: "1.38.1", traits: []),
    ],
    targets: [
        .target(name: "Workbench", dependencies: flux("FluxCore")),
        .executableTarget(
            name: "Compare",
            dependencies: flux(
                "FluxCore", "FluxDiagnostics", "FluxEffects", "FluxObservation", "FluxPersistence", "FluxRouting"
            ) + [
                "CHeap", "OpenCombine", "Workbench",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "SQLiteLog", package: "FluxCoreExamples"),
                .product(name: "AsyncAlgorithms", package: "swift-async-algorithms"),
            ]
        ),
        .target(name: "CHeap"),
        .target(name: "CountingAllocator"),
        .executableTarget(
            name: "Allocations",
            dependencies: flux("FluxCore") + [
                "CountingAllocator", "Workbench",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ]
        ),
        .executableTarget(
            name: "Soak",
            dependencies: flux(
                "FluxCore", "FluxDiagnostics", "FluxEffects", "FluxObservation", "FluxPersistence", "FluxRouting"
            ) + ["CHeap", .product(name: "ArgumentParser", package: "swift-argument-parser")]
        ),
        .executableTarget(
            name: "FluxCoreBenchmarks",
            dependencies: flux("FluxCore") + ["Workbench", .product(name: "Benchmark", package: "benchmark")],
            path: "Benchmarks/FluxCoreBenchmarks",
            plugins: [.plugin(name: "BenchmarkPlugin", package: "benchmark")]
        ),
    ],
    swiftLanguageModes: [.v6]
)

for target in package.targets where !["CHeap", "CountingAllocator"].contains(target.name) {
    target.swiftSettings = [.treatAllWarnings(as: .error)]
}
