// swift-tools-version: 6.2
import PackageDescription

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
        .target(name: "AccessLog", dependencies: ["FluxCore"]),
        .executableTarget(
            name: "access-watch",
            dependencies: [
                "AccessLog",
                "FluxCore",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ]
        ),
        .testTarget(
            name: "AccessLogTests",
            dependencies: ["AccessLog", "FluxCore", "access-watch"],
            exclude: ["Fixtures"]
        ),
        .target(name: "SQLiteLog", dependencies: ["FluxCore", .product(name: "GRDB", package: "GRDB.swift")]),
        .executableTarget(name: "durable-counter", dependencies: ["FluxCore", "SQLiteLog"]),
        .testTarget(
            name: "SQLiteLogTests",
            dependencies: [
                "FluxCore", "SQLiteLog", "durable-counter",
                .product(name: "FluxCoreTesting", package: "FluxCore"),
                .product(name: "GRDB", package: "GRDB.swift"),
            ]
        ),
        .target(
            name: "FluxWindows",
            dependencies: [
                "FluxCore",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "Tracing", package: "swift-distributed-tracing"),
            ]
        ),
        .testTarget(
            name: "FluxWindowsTests",
            dependencies: [
                "FluxCore", "FluxWindows",
                .product(name: "InMemoryTracing", package: "swift-distributed-tracing"),
                .product(name: "MetricsTestKit", package: "swift-metrics"),
            ]
        ),
        // Has links to the sources of the library that need Combine: OpenCombine stands for it here.
        .testTarget(name: "RecipesTests", dependencies: ["FluxCore", "OpenCombine"]),
    ],
    swiftLanguageModes: [.v6]
)

for target in package.targets {
    target.swiftSettings = [.treatAllWarnings(as: .error), .define("FLUX_OPENCOMBINE")]
}
