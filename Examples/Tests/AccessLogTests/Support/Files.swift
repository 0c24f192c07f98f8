import Foundation

/// A log that was recorded from a real server; see the README beside it.
enum Fixture: String, CaseIterable, Sendable {
    case nginxCombined = "nginx-combined.log"
    case apacheCommon = "apache-common.log"

    var path: String {
        URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(components: "Fixtures", rawValue).path
    }
}

/// A good line of a log.
func goodLine(path: String = "/") -> String {
    #"192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] "GET \#(path) HTTP/1.1" 200 10 "-" "test""# + "\n"
}
