/// What is looked for in the code.
///
/// Where one of these goes over several lines, blanks in it mean nothing.
struct Expressions {
    let condition = #/^\s*#(if|elseif|else|endif)\b\s*(.*)/#

    let importing =
        #/
        ^\s* (?:@\w+(?:\([^)]*\))?\s+)* (?:\w+\s+)? import\s+
        (?:(?:struct|class|enum|protocol|typealias|func|let|var)\s+)? (\w+)
        /#

    /// What one module would have of another that a user has not.
    let privileged = #/@(?:_spi|testable)\b/#

    let package = #/\bpackage(?:\(set\))?\s+[\w@]/#

    /// What stands behind the word that says what is declared is the output.
    let published =
        #/
        \b(?:public|open)\s (?:.*\s)?
        (?:struct|class|enum|protocol|actor|typealias|func|var|let|init|subscript|macro|case|extension)\b (.*)
        /#

    let publishedType = #/^(?:[@\w()]+\s+)*public\s(?:\w+\s+)*(?:struct|class|enum|protocol|actor|typealias)\s/#

    let clock =
        #/
        \b(?:DispatchTime|DispatchWallTime|ContinuousClock|SuspendingClock|asyncAfter|makeTimerSource)\b
        | \b(?:(?:clock_)?(?:nano|u)?sleep|sched_yield|clock_gettime|gettimeofday|pthread_cond_timedwait)\b
        | \.now\b | \b(?:milli|micro|nano)?seconds\( | \bwait\((?:wallT|t)imeout
        /#

    let unsafe =
        #/
        nonisolated\(unsafe\) | unowned\(unsafe\) | @unchecked | @exclusivity\(unchecked\) | \b(?:as|try)!
        | \b(?:Unmanaged|assumingMemoryBound|bindMemory)\b | \b(?:withU|U|u)nsafe[A-Z]\w+
        /#

    let dependency = #/\.package\(/#
}
