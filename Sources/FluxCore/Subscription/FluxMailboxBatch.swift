/// What goes into a mailbox and what comes out of it.
nonisolated extension FluxMailbox {
    /// One who will be a member from the next batch on.
    @usableFromInline
    struct Joiner {
        @usableFromInline let id: UInt64
        @usableFromInline let member: Member
        /// The number of the newest element that it must not get.
        @usableFromInline var start: UInt64
        /// Whether it asked for the current element before anything else.
        @usableFromInline let startsWithCurrent: Bool
        /// What it gets before anything else; by the rule `latest` it is not kept but filled in with the batch.
        @usableFromInline var snapshot: Element?

        @inlinable
        init(id: UInt64, member: Member, start: UInt64, startsWithCurrent: Bool, snapshot: Element?) {
            self.id = id
            self.member = member
            self.start = start
            self.startsWithCurrent = startsWithCurrent
            self.snapshot = snapshot
        }
    }

    /// What the drain is told with the next batch.
    @usableFromInline
    enum Note {
        case leave(id: UInt64)
        /// By the rule `bounded`, the waiter is to be told once so many elements wait no longer.
        case wait(Waiter, passed: Int)
        /// By the rule `bounded`, first of all and for good: in here it costs the others no word.
        case bound(FluxBound)
    }

    /// What a drain works on outside the lock, and gives back for the next.
    @usableFromInline
    struct Batch {
        /// What is to be delivered, oldest first; the drain takes one after the other out, and gives the buffer back.
        @usableFromInline var elements: ContiguousArray<Element?> = []
        /// The number of the first element.
        @usableFromInline var first: UInt64 = 0
        /// All members, those of ``joined`` last and in the same order.
        @usableFromInline var members = FluxSlots<Member>()
        @usableFromInline var joined: ContiguousArray<Joiner> = []
        /// Those who wait for everything up to the end of this batch.
        @usableFromInline var waiters: ContiguousArray<Waiter> = []
        /// How many elements were dropped since the last batch.
        @usableFromInline var dropped = 0
        /// Those who are members no longer, to be let go of outside the lock.
        @usableFromInline var gone: ContiguousArray<Member> = []
        /// The bound that was hit: its member is to be told so after this batch, and has to leave.
        @usableFromInline var overflow: FluxBound?
        /// The bound of a mailbox that is no more, to be let go of outside the lock: it may have a closure of the user's.
        @usableFromInline var remains: FluxBound?
        /// Whether it is by the rule `latest`.
        @usableFromInline var isConflated = false

        @inlinable
        init() {}
    }

    /// What `leave` took out, to be let go of outside the lock.
    @usableFromInline
    struct Departure {
        @usableFromInline var member: Member?
        /// Its snapshot, if it had not got that yet: it may be the last reference to what a user's `deinit` is in.
        @usableFromInline var snapshot: Element?
        @usableFromInline var elements: ContiguousArray<Element?> = []

        @inlinable
        init() {}
    }
}
