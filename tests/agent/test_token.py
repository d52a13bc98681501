from pathlib import Path

import pytest

from roost.agent.token import TokenSource, TokenUnusable


def test_the_file_comes_before_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("  of-the-file\n")
    environment = {"ROOST_AGENT_TOKEN": "of-the-environment"}
    assert TokenSource(file, environment).token == "of-the-file"
    assert TokenSource(None, environment).token == "of-the-environment"
    assert TokenSource(None, {}).token is None


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"one\ntwo\n", b"t\xc3\xb6ken", b"\xff", b"x" * 1025])
def test_what_is_no_token_is_refused_with_its_file(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(TokenUnusable, match=f"--token-file {file}: expected"):
        TokenSource(file, {})


def test_a_missing_file_and_an_empty_variable_are_said(tmp_path: Path) -> None:
    with pytest.raises(TokenUnusable, match="No such file"):
        TokenSource(tmp_path / "nosuch", {"ROOST_AGENT_TOKEN": "x"})
    with pytest.raises(TokenUnusable, match="ROOST_AGENT_TOKEN: expected one token"):
        TokenSource(None, {"ROOST_AGENT_TOKEN": ""})


def test_a_replaced_file_is_read_and_a_broken_one_is_not_believed(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    source = TokenSource(file, {})
    for content, token in (("second", "second"), ("", "second"), ("third", "third")):
        file.write_text(content)
        source.reread()
        assert source.token == token
    file.unlink()
    source.reread()
    assert source.token == "third"
