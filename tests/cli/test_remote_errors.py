"""What is told of another service's refusal."""

from typing import Any

import pytest

from roost.cli.remote_errors import DETAIL_MAX, detail_of


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        ({"detail": "There is\n  none."}, "There is none"),
        ({"errors": [{"status": 404, "detail": "There is none.\n\n   "}]}, "There is none"),
        ({"itemNotFound": {"code": 404, "message": "No such server."}}, "No such server"),
        (b'{"error": {"code": 500, "message": "It broke."}}', "It broke"),
        (b"<html>\n <body>404</body>\n</html>\n", "<html> <body>404</body> </html>"),
        (b"\xff", "\ufffd"),
        ({"errors": []}, "{'errors': []}"),
        ("x" * 1000, "x" * DETAIL_MAX),
    ],
)  # fmt: skip
def test_the_sentence_is_taken_out_of_every_dialect_on_one_line(answer: Any, detail: str) -> None:
    assert detail_of(answer) == detail
