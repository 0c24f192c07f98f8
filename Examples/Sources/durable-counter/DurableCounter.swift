import SQLiteLog
@main enum Main { static func main() {} }
