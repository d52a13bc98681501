"""A PostgreSQL that may be stopped and started, for Roost's `--database`: `python -m tests.interop.database FOLDER`.

Prints its address once it runs. Each line of its input ("stop", "start") is done and answered "done"; it ends with its
input. A process of its own, as the cloud's Python does not have Roost.
"""

import sys
from pathlib import Path

from roost.platform.postgres import PrivatePostgres


def main() -> None:
    """Serve until the input ends."""
    postgres = PrivatePostgres(Path(sys.argv[1]))
    postgres.start()
    print(postgres.dsn, flush=True)  # noqa: T201
    for line in sys.stdin:
        {"stop": postgres.stop, "start": postgres.start}[line.strip()]()
        print("done", flush=True)  # noqa: T201
    postgres.stop()


if __name__ == "__main__":
    main()
