"""Which parameters there are at which microversion, and jsonschema's words for others."""

import re

import pytest

from roost.placement.errors import QueryMalformed
from roost.placement.search.query_schema import candidate_schema, check, provider_schema, suffix_pattern


@pytest.mark.parametrize(
    ("minor", "suffix", "fits"),
    [
        (10, "", True), (24, "", True), (24, "1", False), (25, "1", True), (25, "01", False), (25, "_nic0", False),
        (32, "99", True), (32, "_nic0", False), (33, "_nic0", True), (33, "0", True), (33, "", False),
        (39, "a" * 64, True), (39, "a" * 65, False), (39, "a.b", False),
    ],
)  # fmt: skip
def test_suffixes_are_numbers_first_and_then_names(minor: int, suffix: str, fits: bool) -> None:
    assert bool(re.fullmatch(suffix_pattern((1, minor)), suffix)) is fits


@pytest.mark.parametrize(
    ("minor", "new"),
    [(0, {"name", "uuid"}), (3, {"member_of"}), (4, {"resources"}), (14, {"in_tree"}), (18, {"required"})],
)
def test_a_parameter_of_providers_is_known_from_its_microversion_on(minor: int, new: set[str]) -> None:
    now = provider_schema((1, minor))["properties"].keys()
    before = provider_schema((1, minor - 1))["properties"].keys() if minor else set()
    assert now - before == new
    assert now <= provider_schema((1, 39))["properties"].keys()


@pytest.mark.parametrize(
    ("minor", "new"),
    [(10, {"resources"}), (16, {"limit"}), (17, {"required"}), (21, {"member_of"}), (25, {"group_policy"}),
     (31, {"in_tree"}), (35, {"root_required"}), (36, {"same_subtree"}), (39, set())],
)  # fmt: skip
def test_a_parameter_of_candidates_is_known_from_its_microversion_on(minor: int, new: set[str]) -> None:
    assert known(minor) - known(minor - 1) == new
    assert known(minor) >= known(minor - 1)


def known(minor: int) -> set[str]:
    schema = candidate_schema((1, minor))
    return {*schema["properties"], *(re.match(r"\^(\w+)", one)[1] for one in schema.get("patternProperties", ()))}


@pytest.mark.parametrize(
    ("minor", "name", "known_"),
    [(24, "required", True), (24, "required1", False), (25, "required1", True), (25, "limit1", False),
     (30, "in_tree1", False), (31, "in_tree1", True), (33, "member_of_a", True), (35, "root_required_a", False)],
)  # fmt: skip
def test_parameters_of_groups_may_have_a_suffix(minor: int, name: str, known_: bool) -> None:
    pairs = [("resources", "VCPU:1"), (name, "x")]
    if known_:
        check(pairs, candidate_schema((1, minor)))
    else:
        with pytest.raises(QueryMalformed, match=name):
            check(pairs, candidate_schema((1, minor)))


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([("name", "a")], None),
        ([("colour", "red")], "Invalid query string parameters: Additional properties are not allowed"),
        ([("uuid", "life")], "Invalid query string parameters: 'life' is not a 'uuid'"),
        ([("uuid", "life"), ("uuid", "11111111-1111-1111-1111-111111111111")], None),
        ([("uuid", "11111111-1111-1111-1111-111111111111"), ("uuid", "life")], "'life' is not a 'uuid'"),
    ],
)
def test_what_a_schema_refuses_is_said_in_jsonschemas_words(pairs: list[tuple[str, str]], words: str | None) -> None:
    if words is None:
        check(pairs, provider_schema((1, 39)))
    else:
        with pytest.raises(QueryMalformed, match=re.escape(words)):
            check(pairs, provider_schema((1, 39)))
