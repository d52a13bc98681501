"""Where a service is, by Keystone's catalogue."""

import pytest

from roost.platform.catalog import CatalogService, Endpoint, EndpointMissing, find_endpoint

ONE = CatalogService("network", (Endpoint("internal", "one", "http://i1"), Endpoint("public", "one", "http://p1")))
TWO = CatalogService("network", (Endpoint("internal", "two", "http://i2"),))
NOWHERE = CatalogService("network", (Endpoint("internal", None, "http://n"),))
COMPUTE = CatalogService("compute", (Endpoint("internal", "one", "http://c"),))


@pytest.mark.parametrize(
    ("catalog", "interface", "region", "url"),
    [
        ([ONE, COMPUTE], "internal", "", "http://i1"),
        ([COMPUTE, ONE, TWO], "internal", "two", "http://i2"),
        ([ONE, TWO], "internal", "one", "http://i1"),
        ([ONE, TWO], "public", "", "http://p1"),
        ([NOWHERE], "internal", "", "http://n"),
        ([ONE, ONE], "internal", "", "http://i1"),
    ],
)
def test_the_endpoint_of_type_interface_and_region_is_found(
    catalog: list[CatalogService], interface: str, region: str, url: str
) -> None:
    assert find_endpoint(catalog, "network", interface=interface, region=region) == url


@pytest.mark.parametrize(
    ("catalog", "interface", "region", "says"),
    [
        ([], "internal", "", "no endpoint internal of the type network; it has none of this type"),
        ([COMPUTE], "internal", "one", "no endpoint internal in one of the type network; it has none of this type"),
        ([ONE], "admin", "", "no endpoint admin of the type network; it has internal in one, public in one"),
        ([ONE], "internal", "two", "no endpoint internal in two of the type network; it has internal in one, public"),
        ([NOWHERE], "internal", "one", "it has internal in no region"),
        ([ONE, TWO], "internal", "", "several endpoints, name a region: internal of the type network; it has internal"),
    ],
)
def test_a_catalogue_without_it_is_told_with_what_it_has(
    catalog: list[CatalogService], interface: str, region: str, says: str
) -> None:
    with pytest.raises(EndpointMissing) as refused:
        find_endpoint(catalog, "network", interface=interface, region=region)
    assert says in str(refused.value)
