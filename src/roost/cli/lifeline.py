"""A process that ends with the one that started it: standard input is a pipe that only the starter holds open."""

import os
import signal
import sys
import threading
import time


def end_with_stdin(*, patience_s: float) -> None:
    """Send this process SIGTERM when its standard input ends, and cut it off if it does not end in time."""
    threading.Thread(target=_wait_for_the_end, args=(patience_s,), daemon=True).start()


def _wait_for_the_end(patience_s: float) -> None:
    while os.read(sys.stdin.fileno(), 64):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(patience_s)
    os._exit(1)
