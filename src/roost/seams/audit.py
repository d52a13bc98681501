"""What an audit of the books says: each wing finds its own drift and says it in these words.

Drift is what should be the same in two places and is not, while nobody is at work on it.
"""

from enum import Enum

from msgspec import Struct


class Mend(Enum):
    """Who puts a drift right: the reconciler (and an audit that repairs), an audit that repairs only, or a person."""

    ITSELF = "itself"
    ASKED = "asked"
    PERSON = "person"


class Repairs(Enum):
    """What an audit may put right: nothing, what the reconcilers may, or all that can be."""

    NONE = "none"
    ITSELF = "itself"
    ALL = "all"

    def include(self, mend: Mend) -> bool:
        """Whether a drift that is mended so is to be put right."""
        return mend is not Mend.PERSON and (self is Repairs.ALL or (self is Repairs.ITSELF and mend is Mend.ITSELF))


class Kind(Enum):
    """The kinds of drift: name, what it is, how it is put right, and by whom."""

    USE_WRONG = ("use-wrong", "use of an inventory is not the sum of its allocations", "summed anew")
    ALLOCATION_STRAY = (
        "allocation-stray", "an allocation or inventory has no provider, or no consumer", "removed",
    )  # fmt: skip
    ALLOCATION_UNBACKED = (
        "allocation-unbacked", "an allocation has no inventory",
        "published again with its provider, if that is Roost's own",
    )  # fmt: skip
    ROOT_WRONG = ("root-wrong", "the root of a provider is not the top of its tree", "set again")
    CONSUMER_EMPTY = ("consumer-empty", "a consumer holds nothing", "removed")
    ADDRESS_STRAY = ("address-stray", "an address is of a port or subnet that does not exist", "unassigned")
    ADDRESS_WRONG = (
        "address-wrong", "an address is not marked as what its subnet's pools make it: of them, and capacity",
        "marked anew",
    )  # fmt: skip
    FREE_WRONG = (
        "free-wrong", "the free ranges of a subnet are not its pools without the addresses held", "computed anew",
    )  # fmt: skip
    PROVIDER_WRONG = (
        "provider-wrong", "the provider of a segment or network is missing, or is not what its pools make it",
        "published again",
    )  # fmt: skip
    PROVIDER_STRAY = ("provider-stray", "a provider is of a segment or network that does not exist", "deleted")
    AGGREGATE_WRONG = (
        "aggregate-wrong", "the hosts in a host aggregate are not those that reach its segment", "set again",
    )  # fmt: skip
    AGGREGATE_STRAY = ("aggregate-stray", "a host aggregate is of a segment that does not exist", "deleted")
    HOST_WRONG = (
        "host-wrong", "a host is not what it was reported to be: its provider, or what the network service knows of it",
        "published again",
    )  # fmt: skip
    MIRROR_WRONG = (
        "mirror-wrong", "the provider of a host is not in the placement aggregates of its host aggregates", "set again",
    )  # fmt: skip
    PORT_CLAIM_SMALL = (
        "port-claim-small", "a port has addresses that its claim does not count", "claimed, if there is room",
    )  # fmt: skip
    PORT_CLAIM_LARGE = ("port-claim-large", "a port's claim is larger than its addresses", "cut down to them")
    PORT_CLAIM_IDLE = (
        "port-claim-idle", "a port without addresses has a claim, and no build or request is at work", "given back",
    )  # fmt: skip
    PORT_CLAIM_STRAY = ("port-claim-stray", "a claim is of a port that does not exist", "given back")
    PORT_STRAY = (
        "port-stray", "a port was made for, or reserved for, a server that neither runs nor is being built",
        "deleted if Roost made it, else put back as it came",
    )  # fmt: skip
    PORT_LATE = (
        "port-late", "a port was made or reserved for the build of a server that came to run without it",
        "deleted; a user's own is given back",
    )  # fmt: skip
    PORT_UNOWNED = (
        "port-unowned", "a user's port is attached to a server that does not exist", "detached; it keeps its addresses",
        Mend.ASKED,
    )  # fmt: skip
    PORT_RESERVED = (
        "port-reserved", "a port or an address is reserved for the build of a server that nothing works on", "settled",
    )  # fmt: skip
    PORT_ELSEWHERE = ("port-elsewhere", "a port is bound to another host than its server is on", "by you", Mend.PERSON)
    PORT_UNREACHED = (
        "port-unreached", "a port has addresses on a segment that its host does not reach any more",
        "by you: cable the host again, or move the server", Mend.PERSON,
    )  # fmt: skip
    FLAT_CLAIM_WRONG = (
        "flat-claim-wrong", "an ACTIVE server's claim of addresses is not its addresses on flat networks",
        "claimed anew, if there is room",
    )  # fmt: skip
    SERVER_CLAIM_STRAY = ("server-claim-stray", "a claim is of a server that may hold none", "given back")
    SERVER_CLAIM_WRONG = (
        "server-claim-wrong", "an ACTIVE server's claim is missing, or is not what it asked for",
        "claimed anew, if there is room",
    )  # fmt: skip
    GUEST_STRAY = (
        "guest-stray", "a host has a guest of a server that is not there, or is elsewhere", "destroyed by its agent",
        Mend.ASKED,
    )  # fmt: skip
    GUEST_MISSING = (
        "guest-missing", "the host of a server has no guest of it", "by you: delete the server", Mend.PERSON,
    )  # fmt: skip
    GUEST_UNKNOWN = (
        "guest-unknown", "a host has a guest that this database does not know, as after the restore of an older one",
        "by you: on the host, or with roost-manage destroy-guest", Mend.PERSON,
    )  # fmt: skip
    SERVER_PORTS_WRONG = (
        "server-ports-wrong", "an ACTIVE server's network information is not its ports, or its flat addresses",
        "written anew",
    )  # fmt: skip

    def __init__(self, code: str, sentence: str, repair: str, mend: Mend = Mend.ITSELF) -> None:
        self.code = code
        self.sentence = sentence
        self.repair = repair
        self.mend = mend


class Drift(Struct, frozen=True, kw_only=True):
    """One thing that has drifted. key: its UUID or name; name: what people call it; says: what is, and should be.

    repaired: it was put right. A repair can be refused, for want of room say: it is found again then.
    """

    kind: Kind
    key: str
    name: str = ""
    says: str = ""
    repaired: bool = False
