"""Query strings of the Placement API: what they mean at which microversion, and in which words they are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.placement.errors import QueryKeyRepeated, QueryMalformed, QueryValueBad, QueryValueMissing
from roost.placement.search.query import (
    AMOUNT_MAX,
    LIMIT_MAX,
    check_parameters,
    decode_pairs,
    parse_candidates,
    parse_group,
    parse_providers,
    read_candidates,
)
from roost.placement.search.query_schema import CANDIDATE_PARAMETERS, PROVIDER_PARAMETERS
from roost.seams.placement import CandidateQuery, Distinct, RequestGroup

ONE, TWO = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"


def candidates(query_string: str, version: int = 39) -> CandidateQuery:
    return parse_candidates(decode_pairs(query_string.encode()), (1, version))


def test_groups_are_read_with_the_unsuffixed_one_first() -> None:
    parsed = candidates(
        f"resources_nic0=IPV4_ADDRESS:1&member_of_nic0=in:{ONE},{TWO.replace('-', '').upper()}&in_tree_nic0={ONE}"
        f"&resources=VCPU:2,MEMORY_MB:512&required=CUSTOM_A,!CUSTOM_B&required=in:CUSTOM_C,CUSTOM_D&member_of={ONE}"
        f"&member_of=!in:{TWO}&limit=10"
    )
    assert parsed == CandidateQuery(
        groups=(
            RequestGroup(
                suffix="", resources={"VCPU": 2, "MEMORY_MB": 512},
                required=(frozenset({"CUSTOM_A"}), frozenset({"CUSTOM_C", "CUSTOM_D"})),
                forbidden=frozenset({"CUSTOM_B"}), member_of=(frozenset({ONE}),), forbidden_aggregates=frozenset({TWO}),
            ),
            RequestGroup(
                suffix="_nic0", resources={"IPV4_ADDRESS": 1}, member_of=(frozenset({ONE, TWO}),), in_tree=ONE
            ),
        ),
        limit=10,
        distinct=Distinct.MAPPINGS,
    )  # fmt: skip


def test_a_whole_request_has_traits_of_its_root_and_subtrees() -> None:
    parsed = candidates(
        "resources_a=VCPU:1&required_b=CUSTOM_B&same_subtree=_a, _b,_a&group_policy=isolate&root_required=CUSTOM_R,!!X"
    )
    assert (parsed.same_subtree, parsed.group_policy) == ((frozenset({"_a", "_b"}),), "isolate")
    assert (parsed.root_required, parsed.root_forbidden) == (frozenset({"CUSTOM_R"}), frozenset({"X"}))
    assert parsed.groups[1] == RequestGroup(suffix="_b", resources={}, required=(frozenset({"CUSTOM_B"}),))


@pytest.mark.parametrize(
    ("query_string", "version", "limit", "policy", "required"),
    [
        ("limit=3&limit=4", 39, 3, "none", ()),
        ("group_policy=isolate&group_policy=none", 39, 0, "isolate", ()),
        ("required=A&required=B", 38, 0, "none", ({"B"},)),
        ("required=A&required=B,A", 39, 0, "none", ({"A"}, {"B"})),
        ("required=A, B", 17, 0, "none", ({"A"}, {"B"})),
        ("limit=" + "9" * 5000, 39, LIMIT_MAX, "none", ()),
    ],
)
def test_of_repeated_parameters_the_first_the_last_or_all_count(query_string, version, limit, policy, required) -> None:
    parsed = candidates(f"resources=VCPU:1&{query_string}", version)
    assert (parsed.limit, parsed.group_policy, parsed.groups[0].required) == (limit, policy, required)


def test_what_candidates_may_be_depends_on_the_microversion() -> None:
    old, flat, mapped = (candidates("resources=VCPU:1", version) for version in (28, 33, 34))
    assert (old.nested, old.distinct) == (False, Distinct.MAPPINGS)
    assert (flat.nested, flat.distinct) == (True, Distinct.MAPPINGS)
    assert (mapped.nested, mapped.distinct) == (True, Distinct.MAPPINGS)


FORM = "Badly formed resources parameter. Expected resources query string parameter in form: ?resources=VCPU:2,MEM"


@pytest.mark.parametrize(
    ("query_string", "version", "words"),
    [
        ("limit=3", 24, "Invalid query string parameters: 'resources' is a required property"),
        ("resources=VCPU:1&limit=0", 39, "Invalid query string parameters: '0' does not match '^[1-9][0-9]*$'"),
        ("resources=VCPU:1&limit=0&limit=1", 39, "Invalid query string parameters: '0' does not match '^[1-9][0-9]*$'"),
        ("resources=VCPU:1&limit=1&limit=x", 39, "Invalid query string parameters: 'x' does not match '^[1-9][0-9]*$'"),
        ("resources=VCPU:1&group_policy=some", 39, "'some' is not one of ['none', 'isolate']"),
        ("resources=VCPU:1&colour=red", 24, "Additional properties are not allowed ('colour' was unexpected)"),
        ("resources=VCPU:1&colour=red", 25, "'colour' does not match any of the regexes"),
        ("resources01=VCPU:1", 25, "'resources01' does not match any of the regexes"),
        ("resources_a=VCPU:1", 32, "'resources_a' does not match any of the regexes"),
        ("resources_a@=VCPU:1", 33, "'resources_a@' does not match any of the regexes"),
        (f"resources_{'a' * 64}=VCPU:1", 33, "does not match any of the regexes"),
        ("resources=VCPU:1&x=%FF", 39, "Invalid query string parameters: 'utf-8' codec can't decode"),
        ("resources=", 10, f"{FORM}ORY_MB:1024. Got: empty string."),
        ("resources=VCPU", 10, f"{FORM}ORY_MB:1024. Got: VCPU."),
        ("resources=VCPU:1,", 10, f"{FORM}ORY_MB:1024. Got: ."),
        ("resources=VCPU:1:2", 10, f"{FORM}ORY_MB:1024. Got: VCPU:1:2."),
        ("resources=VCPU:x&resources=VCPU:1", 10, "Requested resource VCPU expected positive integer amount. Got: x."),
        ("resources=VCPU:-2", 10, "Requested resource VCPU requires amount >= 1. Got: -2."),
        ("resources=VCPU:0", 10, "Requested resource VCPU requires amount >= 1. Got: 0."),
        ("resources=VCPU:1&required=", 21, "value of the form: HW_CPU_X86_VMX,CUSTOM_MAGIC. Got an empty trait in: "),
        ("resources=VCPU:1&required=A,", 22, "value of the form: HW_CPU_X86_VMX,!CUSTOM_MAGIC. Got an empty trait in"),
        ("resources=VCPU:1&required=!", 22, "value of the form: HW_CPU_X86_VMX,!CUSTOM_MAGIC. Got an empty trait in"),
        ("resources=VCPU:1&required=!A", 21, "value of the form: HW_CPU_X86_VMX,CUSTOM_MAGIC. Got: !A"),
        ("resources=VCPU:1&required=in:A,B", 38, "only supported since microversion 1.39. Got: in:A,B"),
        ("resources=VCPU:1&required=in:A,", 39, "form: in:HW_CPU_X86_VMX,CUSTOM_MAGIC. Got an empty trait in: in:A,"),
        ("resources=VCPU:1&required=in:A,!B", 39, "does not support forbidden traits. Got: in:A,!B"),
        ("resources=VCPU:1&required=A&required=!A", 39, "Conflicting required and forbidden traits found in the "
         "following traits keys: required: (A)"),
        ("resources1=VCPU:1&required1=in:A,B&required1=!A,!B", 39, "traits keys: required1: (A, B)"),
        (f"resources=VCPU:1&member_of={ONE}&member_of={TWO}", 23, "Multiple member_of parameters are not supported"),
        (f"resources=VCPU:1&member_of={ONE},{TWO}", 39, "must be prefixed with the 'in:' or '!in:' keyword using the"),
        (f"resources=VCPU:1&member_of=!{ONE}", 31, "Forbidden member_of parameters are not supported in the"),
        ("resources=VCPU:1&member_of=in:", 39, "Expected 'member_of' parameter to contain valid UUID(s). Got: "),
        (f"resources=VCPU:1&member_of=in:{ONE},!{TWO}", 39, f"to contain valid UUID(s). Got: !{TWO}"),
        ("resources=VCPU:1&in_tree=life", 39, "Expected 'in_tree' parameter to be a format of uuid. Got: life"),
        ("required=A&resources1=VCPU:1", 35, "All traits parameters must be associated with resources.  Found the "
         "following orphaned traits keys: required"),
        (f"member_of2={ONE}&resources1=VCPU:1", 35, "Found the following orphaned member_of keys: member_of2"),
        (f"in_tree2={ONE}&resources1=VCPU:1", 35, "All request groups must specify resources."),
        ("limit=5", 35, "At least one request group (`resources` or `resources{$S}`) is required."),
        ("resources1=VCPU:1&resources2=VCPU:1", 39, 'The "group_policy" parameter is required when specifying more '
         'than one "resources{N}" parameter.'),
    ],
)  # fmt: skip
def test_a_malformed_query_is_refused_in_the_words_of_the_api(query_string: str, version: int, words: str) -> None:
    with pytest.raises(QueryMalformed) as refused:
        candidates(query_string, version)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("query_string", "error", "words"),
    [
        ("resources=VCPU:1&root_required=A&root_required=A", QueryKeyRepeated, "may be specified only once"),
        ("resources=VCPU:1&root_required=A,!A", QueryValueBad, "traits found in root_required: A"),
        ("resources1=VCPU:1&same_subtree=", QueryValueBad, "Empty string (unsuffixed group) can not be specified"),
        ("resources1=VCPU:1&same_subtree=1,", QueryValueBad, "Empty string (unsuffixed group) can not be specified"),
        ("resources1=VCPU:1&same_subtree=1,2", QueryValueBad, "['2'] not found in ['1']"),
        ("resources1=VCPU:1&required2=A", QueryValueBad, "in `same_subtree` query param: bad group(s) - ['2']."),
        ("required1=A&same_subtree=1", QueryValueMissing, "There must be at least one resources or resources[$S]"),
        ("limit=1", QueryValueMissing, "There must be at least one resources or resources[$S]"),
    ],
)
def test_refusals_that_have_a_code_have_a_type(query_string: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as refused:
        candidates(query_string)
    assert words in str(refused.value)


VALUES = {"limit": "1", "group_policy": "none", "member_of": ONE, "in_tree": ONE, "uuid": ONE, "resources": "VCPU:1"}


@pytest.mark.parametrize(("since", "name"), [(since, name) for since, name, _ in CANDIDATE_PARAMETERS])
def test_a_parameter_of_candidates_exists_from_its_microversion_on(since: tuple[int, int], name: str) -> None:
    value = "1" if name == "same_subtree" else VALUES.get(name, "A")
    for version in range(10, 40):
        query_string = f"resources=VCPU:1&{'resources1=VCPU:1&' if version >= 25 else ''}{name}={value}"
        if (1, version) >= since:
            candidates(query_string, version)
        else:
            with pytest.raises(QueryMalformed, match=name):
                candidates(query_string, version)


@pytest.mark.parametrize(("since", "name"), [(since, name) for since, name, _ in PROVIDER_PARAMETERS])
def test_a_parameter_of_providers_exists_from_its_microversion_on(since: tuple[int, int], name: str) -> None:
    pairs = [(name, VALUES.get(name, "A"))]
    for version in range(40):
        if (1, version) >= since:
            parse_providers(pairs, (1, version))
        else:
            with pytest.raises(QueryMalformed, match=f"are not allowed \\('{name}' was unexpected"):
                parse_providers(pairs, (1, version))


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([("uuid", "x")], "'x' is not a 'uuid'"),
        ([("in_tree", "x")], "'x' is not a 'uuid'"),
        ([("required", "A,,B")], "value of the form: HW_CPU_X86_VMX,!CUSTOM_MAGIC. Got an empty trait in: A,,B"),
        ([("resources", "VCPU:fred")], "Requested resource VCPU expected positive integer amount. Got: fred."),
    ],
)
def test_providers_are_refused_in_the_words_of_the_api(pairs: list[tuple[str, str]], words: str) -> None:
    with pytest.raises(QueryMalformed) as refused:
        parse_providers(pairs, (1, 39))
    assert words in str(refused.value)


def test_providers_are_asked_for_by_what_each_has_itself() -> None:
    pairs = [("uuid", ONE.upper()), ("name", ""), ("resources", "VCPU:" + "9" * 400), ("required", "!A")]
    query = parse_providers(pairs, (1, 39))
    assert (query.uuid, query.name) == (ONE, None)
    assert query.group == RequestGroup(suffix="", resources={"VCPU": AMOUNT_MAX}, forbidden=frozenset({"A"}))


KEYS = ("resources", "resources1", "required_a", "required", "member_of", "in_tree1", "limit", "group_policy", "x",
        "root_required", "same_subtree", "resources\n", "uuid", "name")  # fmt: skip
WORDS = ("VCPU:1", "VCPU:1,MEM:2", "", "in:", "!", ",", "1", "none", "isolate", ONE, "in:A,B", "!A", ":", "\x00", "☃")


@given(
    st.lists(st.tuples(st.sampled_from(KEYS), st.one_of(st.sampled_from(WORDS), st.text(max_size=8))), max_size=5),
    st.integers(0, 39),
)
def test_no_query_string_is_answered_but_by_a_query_or_a_refusal(pairs, version: int) -> None:
    for parse in (parse_candidates, parse_providers):
        try:
            parse(pairs, (1, max(version, 10)))
        except QueryMalformed as refused:
            assert str(refused)  # noqa: PT017  # both outcomes are fine


@pytest.mark.parametrize("query_string", ["resources=VCPU:1", "resources=VCPU:1&limit=3&group_policy=isolate"])
def test_a_query_string_is_read_as_its_pairs_are(query_string: str) -> None:
    read = read_candidates(query_string.encode(), (1, 39))
    assert read == candidates(query_string)
    assert read_candidates(query_string.encode(), (1, 39)) is read, "what was read once is kept"
    assert read_candidates(query_string.encode(), (1, 28)) == candidates(query_string, 28), "for each microversion"


def test_a_query_string_that_is_refused_is_refused_again() -> None:
    for _ in range(2):
        with pytest.raises(QueryMalformed):
            read_candidates(b"resources=", (1, 39))


@pytest.mark.parametrize(
    ("query_string", "version", "refused"),
    [
        ("resources=VCPU:1", 10, False),
        ("resources=", 10, False),  # what a value means is for the groups
        ("resources1=VCPU:1", 24, True),
        ("resources1=VCPU:1", 25, False),
        ("", 24, True),
        ("", 25, False),
        ("resources=VCPU:1&limit=1", 15, True),
        ("resources=VCPU:1&limit=1", 16, False),
        ("resources=VCPU:1&limit=01", 16, True),
        ("resources=VCPU:1&limit=\u0661", 16, True),  # a digit, but none of ASCII
        ("resources=VCPU:1&limit=1&limit=0", 16, True),
        ("resources=VCPU:1&group_policy=none&group_policy=all", 25, True),
        ("resources=VCPU:1&Limit=1", 39, True),
    ],
)
def test_parameters_have_a_name_and_a_value_that_exist(query_string: str, version: int, refused: bool) -> None:
    pairs = decode_pairs(query_string.encode())
    if refused:
        with pytest.raises(QueryMalformed, match=r"^Invalid query string parameters: "):
            check_parameters(pairs, (1, version))
    else:
        check_parameters(pairs, (1, version))


@pytest.mark.parametrize(
    ("values", "version", "fields"),
    [
        ({}, 39, {}),
        ({"resources": ["VCPU:2, MEMORY_MB : 1"]}, 39, {"resources": {"VCPU": 2, " MEMORY_MB ": 1}}),
        ({"resources": ["VCPU:2", "DISK_GB:1"]}, 39, {"resources": {"DISK_GB": 1}}),
        ({"resources": ["VCPU:+0002"]}, 39, {"resources": {"VCPU": 2}}),
        ({"resources": ["VCPU:" + "9" * 30]}, 39, {"resources": {"VCPU": AMOUNT_MAX}}),
        ({"required": ["A, !B"]}, 22, {"required": (frozenset("A"),), "forbidden": frozenset("B")}),
        ({"required": ["A", "A,B"]}, 39, {"required": (frozenset("A"), frozenset("B"))}),
        ({"required": ["in:A, B"]}, 39, {"required": (frozenset("AB"),)}),
        ({"member_of": [ONE]}, 39, {"member_of": (frozenset({ONE}),)}),
        ({"member_of": [f"in:{ONE},{TWO}", ONE]}, 39, {"member_of": (frozenset({ONE, TWO}), frozenset({ONE}))}),
        ({"member_of": [f"!{ONE}", f"!in:{TWO}"]}, 39, {"forbidden_aggregates": frozenset({ONE, TWO})}),
        ({"in_tree": [f" {TWO} "]}, 39, {"in_tree": TWO}),
        ({"in_tree": [ONE, TWO]}, 39, {"in_tree": TWO}),
    ],
)
def test_a_group_is_what_its_values_say(values: dict[str, list[str]], version: int, fields: dict[str, object]) -> None:
    assert parse_group("_1", values, (1, version)) == RequestGroup(**{"suffix": "_1", "resources": {}, **fields})
