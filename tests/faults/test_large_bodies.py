"""Bodies of very many small values, on real processes: refused at once, and nobody else waits for that."""

import http.client
import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import repeat
from urllib.parse import urlsplit

import pytest
from tests.cluster import Cluster, cluster
from tests.faults.healthy_client import healthy_client

OTHERS_WAIT_MAX_S = 1.0
"""It was 2 to 70 s."""
NOBODY = "00000000-0000-4000-8000-000000000001"
PROVIDER = f"PUT /placement/resource_providers/{NOBODY}"
VALUES: dict[str, Callable[[], Iterator[str]]] = {
    "KEYS": lambda: (f'"k{number:06}":1' for number in range(1_000_000)),
    "NAMES": lambda: (f'"CUSTOM_{number}"' for number in range(1_000_000)),
    "LISTS": lambda: repeat("[]", 5_000_000),
    "ALLOWED": lambda: (f'"CUSTOM_{number}":{{"total":1}}' for number in range(4_900)),
}
"""What a word of a body stands for; made where a test wants it, not by whoever reads this file."""
BODIES = {
    "keys of a provider": ("POST /placement/resource_providers", '{"name":"a",KEYS}'),
    "lists as a name": ("POST /placement/resource_providers", '{"name":[LISTS]}'),
    "inventories": (f"{PROVIDER}/inventories", '{"resource_provider_generation":0,"inventories":{KEYS}}'),
    "traits": (f"{PROVIDER}/traits", '{"resource_provider_generation":0,"traits":[NAMES]}'),
    "consumers": ("POST /placement/allocations", "{KEYS}"),
    "providers of a consumer": (f"PUT /placement/allocations/{NOBODY}", '{"allocations":{KEYS}}'),
    "a reshape": ("POST /placement/reshaper", '{"inventories":{KEYS},"allocations":{}}'),
    "a port's profile": (
        "POST /network/v2.0/ports",
        f'{{"port":{{"network_id":"{NOBODY}","binding:profile":{{KEYS}}}}}}',
    ),
    "a port's tags": (f"PUT /network/v2.0/ports/{NOBODY}/tags", '{"tags":[NAMES]}'),
    "a server's metadata": ("POST /compute/v2.1/servers", '{"server":{"name":"a","metadata":{KEYS}}}'),
    "a poll": ("POST /agent/v1/poll", '{"hosts":[NAMES]}'),
}


def fill(body: str) -> bytes:
    """Return the body with its values."""
    for word, values in VALUES.items():
        if word in body:
            body = body.replace(word, ",".join(values()))
    return body.encode()


@pytest.fixture(scope="module")
def roost() -> Iterator[Cluster]:
    with cluster() as made:
        made.serve("placement", "network", "compute")
        yield made


def answer_to(url: str, what: str, body: bytes) -> tuple[int, str]:
    """Status and answer. what: method and path."""
    method, path = what.split()
    headers = {"Content-Type": "application/json", "OpenStack-API-Version": "placement 1.39"}
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)) as connection:
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@pytest.mark.parametrize("name", BODIES)
def test_a_body_of_a_million_values_is_refused_at_once(roost: Cluster, name: str) -> None:
    what, template = BODIES[name]
    body = fill(template)
    url = roost.url
    if "/agent/" in what:
        with urllib.request.urlopen(f"{url}/agent/v1") as response:
            url = json.load(response)["url"].removesuffix("/agent/v1")
    with healthy_client(url) as end:
        status, said = answer_to(url, what, body)
        waits = end()
    assert status == (400 if "/agent/" in what else 413)
    assert ("values (members of objects, items of lists), " if status == 400 else "more than 1048576 bytes") in said
    assert waits.refused == []
    assert max(waits.health_s, default=0.0) < OTHERS_WAIT_MAX_S


def test_a_body_of_as_many_values_as_are_allowed_keeps_nobody_waiting(roost: Cluster) -> None:
    body = fill('{"resource_provider_generation":0,"inventories":{ALLOWED}}')
    with healthy_client(roost.url) as end:
        status, said = answer_to(roost.url, f"{PROVIDER}/inventories", body)
        waits = end()
    assert status == 400
    assert "No such resource class CUSTOM_0, CUSTOM_1, " in said  # it was read whole
    assert waits.refused == []
    assert max(waits.health_s, default=0.0) < OTHERS_WAIT_MAX_S
