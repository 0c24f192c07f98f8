// swift-tools-version: 6.2
import PackageDescription

/// Modules of the library.
func flux(_ modules: String...) -> [Target.Dependency] {
    modules.map { .product(name: $0, package: "FluxCore") }
}

// A package of its own, so that FluxCore itself depends on nothing.
let package = Package(
    name: "FluxCoreExamples",
    platforms: [.macOS(.v15)],
    products: [.library(name: "SQLiteLog", targets: ["SQLiteLog"])],
    dependencies: [
        .package(name: "FluxCore", path: ".."),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.5.0"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.3.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.5.0"),
        .package(url: "https://github.com/OpenCombine/OpenCombine", from: "0.14.0"),
    ],
    targets: [
        // What the programs have in common, and what tests start them with.
        .target(name: "Terminal"),
        .target(name: "ProgramTesting", path: "Tests/Support"),
        .target(name: "AccessLog", dependencies: flux("FluxCore")),
        .executableTarget(
            name: "access-watch",
            dependencies: flux("FluxCore") + [
                "AccessLog", "Terminal",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ]
        ),
        .testTarget(
            name: "AccessLogTests",
            dependencies: flux("FluxCore") + ["AccessLog", "ProgramTesting", "access-watch"],
            exclude: ["Fixtures"]
        ),
        .target(
            name: "SQLiteLog",
            dependencies: flux("FluxCore", "FluxPersistence") + [.product(name: "GRDB", package: "GRDB.swift")]
        ),
        .executableTarget(
            name: "durable-counter",
            dependencies: flux("FluxCore", "FluxPersistence") + [
                "SQLiteLog", "Terminal",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ]
        ),
        .testTarget(
            name: "SQLiteLogTests",
            dependencies: flux("FluxCore", "FluxPersistence", "FluxTesting") + [
                "ProgramTesting", "SQLiteLog", "durable-counter",
                .product(name: "GRDB", package: "GRDB.swift"),
            ]
        ),
        .target(
            name: "FluxInstruments",
            dependencies: flux("FluxCore", "FluxDiagnostics") + [
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "Tracing", package: "swift-distributed-tracing"),
            ]
        ),
        .testTarget(
            name: "FluxInstrumentsTests",
            dependencies: flux("FluxCore", "FluxDiagnostics") + [
                "FluxInstruments",
                .product(name: "InMemoryTracing", package: "swift-distributed-tracing"),
                .product(name: "MetricsTestKit", package: "swift-metrics"),
            ]
        ),
        .executableTarget(
            name: "auction-house",
            dependencies: flux("FluxCore", "FluxEffects", "FluxObservation", "FluxPersistence", "FluxRouting") + [
                "Terminal",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ]
        ),
        .testTarget(
            name: "AuctionHouseTests",
            dependencies: flux("FluxCore", "FluxObservation", "FluxPersistence", "FluxRouting") + [
                "ProgramTesting", "auction-house",
            ]
        ),
        // Has a link to the source of FluxObservation that needs Combine: OpenCombine stands for it here.
        .testTarget(
            name: "RecipesTests",
            dependencies: flux("FluxCore", "FluxEffects", "FluxPersistence") + ["OpenCombine"]
        ),
    ],
    swiftLanguageModes: [.v6]
)

for target in package.targets {
    target.swiftSettings = [.treatAllWarnings(as: .error), .define("FLUX_OPENCOMBINE")]
}
