import pytest

from roost.compute.rules.host_names import check_host_names, find_bad_host_name
from roost.platform.errors import BadRequest


@pytest.mark.parametrize(
    "name",
    ["a", "h1", "r1-h1", "rack_7", "_a", "a-b.example.com", "10.0.0.1", "A.B", "a" * 63, ".".join(["a" * 63] * 3)],
)
def test_a_host_name_is_taken(name: str) -> None:
    assert find_bad_host_name([name]) is None


@pytest.mark.parametrize(
    ("name", "flaw"),
    [
        ("", "it is empty"),
        ("../../etc", "there is nothing before, after or between its dots"),
        ("a/b", "it has the character '/'"),
        ("a\n", "it has the character '\\n'"),
        ("a\r\nb", "it has the character '\\r'"),
        ("a\0b", "it has the character '\\x00'"),
        ("a b", "it has the character ' '"),
        ("hôte", "it has the character 'ô'"),
        ("h٣", "it has the character '٣'"),
        ("-a", "its label '-a' begins or ends with -"),
        ("a-.b", "its label 'a-' begins or ends with -"),
        (".", "there is nothing before, after or between its dots"),
        ("a.", "there is nothing before, after or between its dots"),
        ("a..b", "there is nothing before, after or between its dots"),
        ("a" * 64, "one of its labels has 64 characters"),
        (".".join(["a" * 63] * 4) + "a", "it has 256 characters"),
    ],
)
def test_what_is_no_host_name_is_said(name: str, flaw: str) -> None:
    said = find_bad_host_name(["h1", name])
    assert said is not None
    assert f" is no host name: {flaw}; expected labels of letters, digits, - and _" in said
    assert "\n" not in said


def test_names_are_checked_up_to_the_first_that_is_none() -> None:
    check_host_names(["h1", "rack-2.example.org"])
    with pytest.raises(BadRequest, match="'h 1' is no host name"):
        check_host_names(["h1", "h 1", "h 2"])
