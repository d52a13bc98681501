"""What is not served has values that ask for nothing."""

import msgspec
import pytest
from msgspec import UNSET, Struct, field

from roost.network.api.fields import NoFlag, NoList, Nothing, neutral_values, refuse_unserved
from roost.network.api.networks import NetworkBody
from roost.network.api.ports import PortBody
from roost.network.api.subnets import SubnetBody
from roost.network.errors import InvalidInput


class Unserved(Struct, kw_only=True, forbid_unknown_fields=True):
    flag: NoFlag = UNSET
    items: NoList = UNSET
    thing: Nothing = field(default=UNSET, name="a:thing")


@pytest.mark.parametrize(
    ("content", "refusal"),
    [
        ("{}", None),
        ('{"flag": false, "items": [], "a:thing": null}', None),
        ('{"flag": null, "items": null}', None),
        ('{"flag": true}', "flag: Roost does not serve it: leave it out, or give false."),
        ('{"flag": 0}', "flag: Roost does not serve it: leave it out, or give false."),
        ('{"items": [1]}', "items: Roost does not serve it: leave it out, or give []."),
        ('{"a:thing": ""}', "a:thing: Roost does not serve it: leave it out, or give null."),
        (f'{{"items": [{" " * 99}]}}', "items: Roost does not serve it: leave it out, or give []."),
    ],
)
def test_what_is_not_served_is_refused_unless_it_asks_for_nothing(content: str, refusal: str | None) -> None:
    body = msgspec.json.decode(content, type=Unserved)
    if refusal is None:
        refuse_unserved(body)
    else:
        with pytest.raises(InvalidInput) as error:
            refuse_unserved(body)
        assert str(error.value) == refusal


@pytest.mark.parametrize(("kind", "count"), [(NetworkBody, 9), (SubnetBody, 4), (PortBody, 14)])
def test_bodies_know_what_of_them_is_not_served(kind: type[Struct], count: int) -> None:
    assert len(neutral_values(kind)) == count
