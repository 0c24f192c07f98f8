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
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.20.0"),
        .package(url: "https://github.com/pointfreeco/swift-custom-dump", from: "1.3.0"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.30.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.8.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.80.0"),
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
                "AccessLog", "FluxInspector", "Terminal",
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
            dependencies: flux("FluxCore", "FluxPersistence") + [
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
            ]
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
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
            ]
        ),
        // Shared logs on engines that others have proven, by the C clients of those.
        .systemLibrary(name: "CNats", pkgConfig: "libnats", providers: [.apt(["libnats-dev"]), .brew(["cnats"])]),
        .target(name: "JetStreamLog", dependencies: flux("FluxReplication") + ["CNats"]),
        .systemLibrary(name: "CPostgres", pkgConfig: "libpq", providers: [.apt(["libpq-dev"]), .brew(["libpq"])]),
        .target(name: "PostgresLog", dependencies: flux("FluxCore", "FluxReplication") + ["CPostgres"]),
        // Servers as processes of their own, for tests and the demo.
        .target(name: "LocalServers"),
        .testTarget(
            name: "SharedLogTests",
            dependencies: flux("FluxReplication", "FluxTesting") + [
                "JetStreamLog", "LocalServers", "PostgresLog", "ProgramTesting", "cluster-demo",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "NIOCore", package: "swift-nio"),
            ]
        ),
        // Three servers, three nodes, and what goes wrong among them.
        .executableTarget(
            name: "cluster-demo",
            dependencies: flux("FluxCore", "FluxReplication", "FluxRouting") + [
                "CNats", "JetStreamLog", "LocalServers", "Terminal", "live-board",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
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
                "ProgramTesting", "Terminal", "auction-house",
            ]
        ),
        // What happens inside a program, as pages of its own server: to mount on any router.
        .target(
            name: "FluxInspector",
            dependencies: flux("FluxCore", "FluxDiagnostics") + [
                .product(name: "CustomDump", package: "swift-custom-dump"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            resources: [.embedInCode("Page")]
        ),
        .testTarget(
            name: "FluxInspectorTests",
            dependencies: flux("FluxCore", "FluxDiagnostics", "FluxEffects") + [
                "FluxInspector", "ProgramTesting",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "HummingbirdTesting", package: "hummingbird"),
                .product(name: "NIOCore", package: "swift-nio"),
            ]
        ),
        .executableTarget(
            name: "live-board",
            dependencies: flux(
                "FluxCore", "FluxDiagnostics", "FluxEffects", "FluxObservation", "FluxPersistence", "FluxReplication",
                "FluxRouting") + [
                    "FluxInspector", "JetStreamLog", "SQLiteLog", "Terminal",
                    .product(name: "ArgumentParser", package: "swift-argument-parser"),
                    .product(name: "Hummingbird", package: "hummingbird"),
                    .product(name: "HummingbirdCore", package: "hummingbird"),
                    .product(name: "Logging", package: "swift-log"),
                    .product(name: "Metrics", package: "swift-metrics"),
                    .product(name: "NIOCore", package: "swift-nio"),
                    .product(name: "NIOHTTP1", package: "swift-nio"),
                    .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                ],
            resources: [.embedInCode("Page")]
        ),
        // The same board without the library, to measure it beside; and what measures both.
        .executableTarget(
            name: "bare-board",
            dependencies: [
                "Terminal",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ]
        ),
        .executableTarget(
            name: "board-load",
            dependencies: [
                "ProgramTesting", "Terminal",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ]
        ),
        .testTarget(
            name: "LiveBoardTests",
            dependencies: flux("FluxCore", "FluxEffects") + [
                "LocalServers", "ProgramTesting", "SQLiteLog", "bare-board", "board-load", "live-board",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "NIOCore", package: "swift-nio"),
            ]
        ),
        // The program of an article, and its test.
        .executableTarget(
            name: "todo-server",
            dependencies: flux("FluxCore", "FluxObservation", "FluxPersistence", "FluxRouting") + [
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "HummingbirdCore", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ]
        ),
        .testTarget(
            name: "TodoServerTests",
            dependencies: [
                "ProgramTesting", "todo-server",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
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

for target in package.targets where target.type != .system {
    target.swiftSettings = [.treatAllWarnings(as: .error), .define("FLUX_OPENCOMBINE")]
}
