"""The words in which the meaning of an MPI function is stated."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from enum import Enum, Flag, IntEnum
else:
    from weft.mpi.meaning.cheap_enums import Enum, Flag, IntEnum


class Act(Enum):
    """What a function does for its caller."""

    SEND = "sends a message"
    RECEIVE = "receives a message"
    SEND_RECEIVE = "sends one message and receives another"
    PROBE = "looks for a message"
    MATCHED_PROBE = "takes a message out of matching"
    MATCHED_RECEIVE = "receives the message that a matched probe took"
    PARTITION = "marks parts of a message as ready to be sent"
    COLLECTIVE = "is called by every member"
    ACCESS = "accesses the memory of a window"
    EPOCH = "opens or ends access to a window"
    TRANSFER = "reads or writes a file for its caller alone"
    START = "starts persistent requests"
    COMPLETE = "completes requests"
    ASK = "says whether a request or a partition is complete, and completes nothing"
    RELEASE = "frees a request"
    CANCEL = "cancels an operation"
    FLUSH = "waits until buffered messages are on their way"
    BEGIN_OR_END = "starts MPI, or ends it"
    LOCAL = "works on objects of the caller"


class Form(Enum):
    """How a call relates to the operation: it is the operation, begins it, makes it for later, or is one half of it."""

    BLOCKING = "blocking"
    NONBLOCKING = "nonblocking"
    PERSISTENT = "persistent"
    BEGIN = "split, first half"
    END = "split, second half"


class Over(Enum):
    """Whose members call a collective."""

    NOBODY = "no group"
    COMMUNICATOR = "communicator"
    GROUP = "group"
    WINDOW = "window"
    FILE = "file"
    SESSION = "session"
    WORLD = "world"


class Mode(Enum):
    """Communication modes (MPI-4.1, 3.4), and whether a message goes in partitions (4)."""

    STANDARD = "standard"
    SYNCHRONOUS = "synchronous"
    BUFFERED = "buffered"
    READY = "ready"
    PARTITIONED = "partitioned"


class Many(Enum):
    """Which of the requests that are given a call is about."""

    ONE = "the one"
    ALL = "all"
    ANY = "one of them"
    SOME = "those that are ready"


class Leaves(IntEnum):
    """Before what no member may leave, as the standard promises it: the synchronising strength of a call.

    A member that brings no data may be left behind: what counts says nothing of it (`Meaning.counted`).
    """

    FREELY = 0
    """At its own time: nothing is promised."""
    AFTER_ALL = 1
    """When every member has come."""
    AFTER_ROOT = 2
    """When the root has come; the root itself at its own time."""
    ROOT_AFTER_ALL = 3
    """The root when every member has come, the others at their own time."""
    AFTER_LOWER = 4
    """When every member of a lower rank has come."""
    AFTER_LOWER_ALONE = 5
    """The same; the member's own part does not enter its result."""
    FENCE = 6
    """When every member has come, unless an assertion says that nothing ends here."""
    AFTER_NEIGHBOURS = 7
    """When those have come from whom the member has an edge in the topology."""
    AFTER_PEER = 8
    """When the one named, or some sender, has come."""


class Waits(Enum):
    """Whom an operation that is not done may be waiting for: its call where that blocks, else its request."""

    NOBODY = "nobody: it returns whatever others do"
    PEER = "the process it names, or some sender"
    EVERY = "every member that has not come"
    SOME = "some member that has not come"
    REQUESTS = "what its requests wait for"
    HOLDER = "whoever holds a lock of the window"
    POSTS = "the post of every target"
    COMPLETES = "the complete of every origin"
    RECEIVERS = "the receivers of buffered messages"
    OUTSIDE = "a process that the record does not name"


class Share(Enum):
    """How a call says how much it moves on one side."""

    NOTHING = "nothing"
    COUNT = "one count for all that it moves"
    EACH = "one count for what it moves to or from each member"
    LISTED = "a count for each member"
    TYPED = "a count and a datatype for each member"


class InPlace(Enum):
    """Where MPI_IN_PLACE may stand for a buffer; the other arguments of that side then say nothing."""

    NOWHERE = "nowhere"
    SENDING = "sendbuf, at every member"
    SENDING_AT_ROOT = "sendbuf, at the root"
    RECEIVING_AT_ROOT = "recvbuf, at the root"


class Sync(IntEnum):
    """What a call does to the epochs of a window, by the names that native/kernel/epochs.h has for it."""

    NONE = 0
    FENCE = 1
    START = 2
    COMPLETE = 3
    POST = 4
    WAIT = 5
    TEST = 6
    LOCK = 7
    LOCK_ALL = 8
    UNLOCK = 9
    UNLOCK_ALL = 10
    FLUSH = 11
    FLUSH_ALL = 12
    FLUSH_LOCAL = 13
    FLUSH_LOCAL_ALL = 14
    FREE = 15
    MEMORY = 16
    """MPI_Win_sync: the copies of the window's memory at this process, and nothing of others."""


class Access(Flag):
    """What a one-sided call does to the target's memory (MPI-4.1, 12.3 and 12.7)."""

    NONE = 0
    READ = 1
    WRITE = 2
    UPDATE = 4
    """What is there is combined with what comes."""
    ATOMIC = 8
    """Element by element, against other such calls; and in their order, from one origin to one target."""
    ONE_ELEMENT = 16


class Trait(Flag):
    """What else is true of a function."""

    NONE = 0
    POLLS = 1
    """Returns at once with a flag or a number, so that it is called over and over."""
    REDUCES = 2
    """Combines what members bring with an operation."""
    BOTH_GROUPS = 4
    """On an intercommunicator every member of either group waits for all of both; else for the other group's."""
    GIVES_KNOWN = 8
    """The handle that comes out may name an object that was there before."""
    ASKED_BY_FORTRAN = 16
    """Fortran bindings call it on their own account, to learn how long an array of the call they serve is."""
    ANYTIME = 32
    """May be called before MPI is initialised, after it is finalised, and from any thread (MPI-4.1, 11.4.1)."""
    TELLS_STATUS = 64
    """The status of the request that it makes says something: a source, a tag, a count, or the program's own words."""
    NAMED_FIRST = 128
    """The tag or the string that members agree on, not their order, tells which of their calls meet."""
    MEETS_STRANGERS = 256
    """The other side are processes of another world."""
    ROOTS_ARGUMENTS = 512
    """What is said before the root in the list of arguments counts at the root alone."""
    GIVES_LASTING = 1024
    """What comes out of it is MPI's own, which nobody frees."""
    FOLDED = 4096
    """Waits for nobody, changes nothing and answers alike each time, the clock aside: equal calls in a row from one
    place are one event that counts them."""
    IN_ONE_PIECE = 2048
    """No two other calls, one that posts and one that waits, do what it does."""


class Meaning(NamedTuple):
    """What one function means. `name`: the standard's, without MPI_ and without the large-count ending `_c`.

    `kin`: the blocking function of which it is a form, its own name where it is that. `makes`, `frees`: classes of
    objects as weft.mpi.table names them. `topic`: what the call is about, in a word or two for people.
    """

    name: str
    act: Act
    topic: str
    form: Form = Form.BLOCKING
    kin: str = ""
    over: Over = Over.NOBODY
    mode: Mode = Mode.STANDARD
    many: Many = Many.ONE
    leaves: Leaves = Leaves.FREELY
    waits: Waits = Waits.NOBODY
    sends: Share = Share.NOTHING
    receives: Share = Share.NOTHING
    in_place: InPlace = InPlace.NOWHERE
    makes: tuple[str, ...] = ()
    frees: str = ""
    sync: Sync = Sync.NONE
    access: Access = Access.NONE
    traits: Trait = Trait.NONE

    @property
    def moves(self) -> bool:
        """Return whether it is a collective whose purpose is data, a barrier included."""
        return self.act is Act.COLLECTIVE and self.topic == DATA

    @property
    def is_neighbourhood(self) -> bool:
        """Return whether its members communicate with those that a topology makes their neighbours."""
        return self.leaves is Leaves.AFTER_NEIGHBOURS

    @property
    def is_rooted(self) -> bool:
        """Return whether one member, the root, sends to all or receives from all."""
        return self.leaves in (Leaves.AFTER_ROOT, Leaves.ROOT_AFTER_ALL)

    @property
    def counted(self) -> bool:
        """Return whether one count says how much each member brings: if it is 0, nobody need wait for that member."""
        return self.sends in (Share.COUNT, Share.EACH) and self.moves and not self.is_neighbourhood

    @property
    def uses_its_count(self) -> bool:
        """Return whether each member uses at least `count` elements of the call's first buffer. False for calls without
        a count.
        """
        if not self.counted or (self.is_reduction and self.sends is Share.EACH):  # there `recvcount` is what comes out
            return False
        return self.leaves is not Leaves.AFTER_ROOT or self.sends is Share.COUNT

    @property
    def has_pairwise_amounts(self) -> bool:
        """Return whether members may owe nothing to each other, pair by pair."""
        lists = (Share.LISTED, Share.TYPED)
        return self.leaves is Leaves.AFTER_ALL and (self.sends in lists or self.receives in lists)

    @property
    def polls(self) -> bool:
        """Return whether programs call it over and over, until its answer is yes."""
        return Trait.POLLS in self.traits

    @property
    def is_reduction(self) -> bool:
        """Return whether it combines the members' contributions with an operation."""
        return Trait.REDUCES in self.traits

    @property
    def posts(self) -> bool:
        """Return whether its place among the calls of other threads decides what is matched, and can be enforced."""
        acts = (Act.SEND, Act.RECEIVE, Act.SEND_RECEIVE, Act.START)
        return self.act in acts and self.form is not Form.PERSISTENT and Trait.IN_ONE_PIECE not in self.traits

    @property
    def probes(self) -> bool:
        """Return whether it looks for a message that nobody received yet."""
        return self.act in (Act.PROBE, Act.MATCHED_PROBE)

    @property
    def is_local(self) -> bool:
        """Return whether a call of the function returns whatever other processes do. That is not certain for making a
        persistent collective (MPI-4.1, 6.13).
        """
        if self.form is Form.PERSISTENT:
            return self.act is not Act.COLLECTIVE
        return self.waits is Waits.NOBODY or self.form is Form.NONBLOCKING


DATA = "collective of data"
"""The topic of collectives whose purpose is data."""
FILES = "files"
