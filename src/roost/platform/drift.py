"""Words for drift: what should be the same in two places and is not, while no request or stage changes it.

Each wing's rules have its kinds; `audit.py` finds and repairs them.
"""

from enum import Enum

from msgspec import Struct


class RepairedBy(Enum):
    """Who repairs a drift: the reconciler (and an audit that repairs), an audit that repairs only, or a person."""

    ITSELF = "itself"
    ASKED = "asked"
    PERSON = "person"


class Repairs(Enum):
    """What an audit may repair: nothing, what the reconcilers may, or all that can be."""

    NONE = frozenset[RepairedBy]()
    ITSELF = frozenset({RepairedBy.ITSELF})
    ALL = frozenset({RepairedBy.ITSELF, RepairedBy.ASKED})


class Kind(Struct, frozen=True):
    """A kind of drift, in the words for operators. sentence: what it is; repair: what is done about it."""

    code: str
    sentence: str
    repair: str
    repaired_by: RepairedBy = RepairedBy.ITSELF

    def drift(self, key: str, says: str = "", *, name: str = "") -> "Drift":
        """Return a drift of this kind."""
        return Drift(kind=self, key=key, name=name, says=says)


class Drift(Struct, frozen=True, kw_only=True):
    """One thing that has drifted. key: its UUID or name; name: what people call it; says: what is, and should be.

    repaired: it was repaired. A repair can be refused, for want of room say: it is found again then.
    """

    kind: Kind
    key: str
    name: str = ""
    says: str = ""
    repaired: bool = False
