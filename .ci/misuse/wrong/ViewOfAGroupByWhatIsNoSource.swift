// What is read of a member has to be a source.
// says: requires that 'Int' conform to 'FluxSource'
struct Counter3: Sendable { let n: Int }

func viewOfAGroup(_ counters: FluxView<[String: Counter3]>) -> FluxView<Int> {
    FluxView(counters, \.n) { numbers in numbers.values.reduce(0, +) }
}
