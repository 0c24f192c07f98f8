enum Report { static func stop(_ e: Explorer) -> Never { fatalError(e.failure ?? "") } }
