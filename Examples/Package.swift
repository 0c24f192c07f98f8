// swift-tools-version: 6.2
import PackageDescription

// A package of its own, so that FluxCore itself depends on nothing.
let package = Package(
    name: "FluxCoreExamples",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "FluxCore", path: ".."),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.5.0"),
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
        // Has links to the sources of the library that need Combine: OpenCombine stands for it here.
        .testTarget(name: "RecipesTests", dependencies: ["FluxCore", "OpenCombine"]),
    ],
    swiftLanguageModes: [.v6]
)

for target in package.targets {
    target.swiftSettings = [.treatAllWarnings(as: .error), .define("FLUX_OPENCOMBINE")]
}
