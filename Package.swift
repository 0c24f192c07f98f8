// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "FluxCore",
    platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
    products: [
        .library(name: "FluxCore", targets: ["FluxCore"]),
        .library(name: "FluxCoreTesting", targets: ["FluxCoreTesting"]),
    ],
    targets: [
        .target(name: "FluxCore"),
        .target(name: "FluxCoreTesting", dependencies: ["FluxCore"]),
        .testTarget(name: "FluxCoreTests", dependencies: ["FluxCore", "FluxCoreTesting"]),
    ],
    swiftLanguageModes: [.v6]
)

// The sources need none of these settings: they only make our own build stricter than a vendored one.
for target in package.targets {
    target.swiftSettings = [.treatAllWarnings(as: .error), .enableUpcomingFeature("MemberImportVisibility")]
}
