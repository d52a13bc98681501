"""A consumer as operators have them: oslo.messaging's own listener, which prints each notification as a line of JSON.

It is a program, since its threads and warnings are its own: `python -m tests.notification_listener URL EXCHANGE TOPIC`.
"""

import json
import sys
import warnings
from typing import Any

warnings.simplefilter("ignore")

import oslo_messaging  # noqa: E402 - its warnings are none of the tests'
from oslo_config import cfg  # noqa: E402


class Printer:
    """An endpoint for all priorities."""

    def info(self, context: Any, publisher_id: str, event_type: str, payload: Any, metadata: Any) -> str:
        """Print it."""
        line = {
            "context": context, "publisher_id": publisher_id, "event_type": event_type, "payload": payload,
            "metadata": metadata,
        }  # fmt: skip
        sys.stdout.write(f"{json.dumps(line)}\n")
        sys.stdout.flush()
        return str(oslo_messaging.NotificationResult.HANDLED)

    error = info


def main() -> None:
    """Listen until killed."""
    url, exchange, topic = sys.argv[1:]
    transport = oslo_messaging.get_notification_transport(cfg.ConfigOpts(), url=url)
    target = oslo_messaging.Target(topic=topic, exchange=exchange)
    listener = oslo_messaging.get_notification_listener(transport, [target], [Printer()], executor="threading")
    listener.start(override_pool_size=1)  # in order
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    listener.wait()


if __name__ == "__main__":
    main()
