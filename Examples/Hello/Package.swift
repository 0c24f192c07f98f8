// swift-tools-version: 6.2
import PackageDescription

// The smallest program there is on FluxCore: it needs Swift, and fetches nothing.
let package = Package(
    name: "Hello",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "FluxCore", path: "../..")],
    targets: [.executableTarget(name: "Hello", dependencies: ["FluxCore"])],
    swiftLanguageModes: [.v6]
)

for target in package.targets { target.swiftSettings = [.treatAllWarnings(as: .error)] }
