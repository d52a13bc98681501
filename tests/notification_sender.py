"""A Neutron's notifier as operators have it: oslo.messaging's own, which sends each line of JSON that it reads.

It is a program, since its threads and warnings are its own: `python -m tests.notification_sender URL EXCHANGE TOPIC`.
A line: {"event_type", "payload"}; each is answered by one, once the broker has it.
"""

import json
import sys
import warnings

warnings.simplefilter("ignore")

import oslo_messaging  # noqa: E402 - its warnings are none of the tests'
from oslo_config import cfg  # noqa: E402


def main() -> None:
    """Send until standard input ends."""
    url, exchange, topic = sys.argv[1:]
    conf = cfg.ConfigOpts()
    oslo_messaging.set_transport_defaults(exchange)
    transport = oslo_messaging.get_notification_transport(conf, url=url)
    notifier = oslo_messaging.Notifier(transport, "network.neutron-1", driver="messagingv2", topics=[topic])
    for line in sys.stdin:
        message = json.loads(line)
        notifier.info({"project_id": "p", "user_id": "u"}, message["event_type"], message["payload"])
        sys.stdout.write("sent\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
