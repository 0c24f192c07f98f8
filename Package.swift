// swift-tools-version: 6.2
import PackageDescription

/// Each module, and what it needs.
let modules: [(name: String, needs: [String])] = [
    ("FluxCore", []),
    ("FluxEffects", ["FluxCore"]),
    ("FluxObservation", ["FluxCore"]),
    ("FluxRouting", ["FluxCore"]),
    ("FluxDiagnostics", ["FluxCore"]),
    ("FluxPersistence", ["FluxCore"]),
    ("FluxReplication", ["FluxCore"]),
    ("FluxTesting", ["FluxCore", "FluxPersistence", "FluxReplication"]),
]

let package = Package(
    name: "FluxCore",
    platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
    products: modules.map { .library(name: $0.name, targets: [$0.name]) },
    targets: modules.flatMap { module -> [Target] in
        [
            .target(name: module.name, dependencies: module.needs.map { .byName(name: $0) }),
            // The tests of a feature may use the others: what users put together has to work together.
            .testTarget(
                name: "\(module.name)Tests",
                dependencies: modules.map { .byName(name: $0.name) } + [.byName(name: "TestSupport")]),
        ]
    } + [
        .target(
            name: "TestSupport",
            dependencies: ["FluxCore", "FluxPersistence", "FluxRouting", "TestWidth"],
            path: "Tests/Support"),
        .target(name: "TestWidth", path: "Tests/Width"),
    ],
    swiftLanguageModes: [.v6]
)

// The sources need none of these settings: they only make our own build stricter than a vendored one.
for target in package.targets {
    target.swiftSettings = [.treatAllWarnings(as: .error), .enableUpcomingFeature("MemberImportVisibility")]
}
