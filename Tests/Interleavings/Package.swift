// swift-tools-version: 6.2
import PackageDescription

/// The sources of the library are compiled as they stand, in one module, but what they synchronise with is the explorer's:
/// `Dispatch` and `Synchronization` are other names for two modules of this package.
let aliases: [SwiftSetting] = [
    .unsafeFlags([
        "-module-alias", "Dispatch=ExploredDispatch", "-module-alias", "Synchronization=ExploredSynchronization",
    ])
]

let package = Package(
    name: "Interleavings",
    platforms: [.macOS(.v26)],
    targets: [
        .target(name: "Explorer"),
        .target(name: "ExploredDispatch", dependencies: ["Explorer"]),
        .target(name: "ExploredSynchronization", dependencies: ["Explorer"]),
        .target(
            name: "Flux",
            dependencies: ["Explorer", "ExploredDispatch", "ExploredSynchronization"],
            exclude: [
                // In its place stands Explored/FluxLock.swift, which has the same members.
                "FluxCore/Support/FluxLock.swift",
                "FluxCore/FluxCore.docc", "FluxDiagnostics/FluxDiagnostics.docc", "FluxEffects/FluxEffects.docc",
                "FluxObservation/FluxObservation.docc",
                "FluxPersistence/FluxPersistence.docc", "FluxReplication/FluxReplication.docc",
                "FluxRouting/FluxRouting.docc", "FluxTesting/FluxTesting.docc",
            ],
            swiftSettings: aliases),
        .executableTarget(
            name: "interleavings", dependencies: ["Explorer", "ExploredDispatch", "Flux"], swiftSettings: aliases),
    ],
    swiftLanguageModes: [.v6]
)
