"""Every time-out follows from the lease, and both ends of a TCP connection notice that the other is gone."""

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop
from tests.postgres_servers import PG_BIN

from roost.platform.database import Database
from roost.platform.postgres import PrivatePostgres
from roost.platform.timeouts import Timeouts


@pytest.mark.parametrize("lease_s", [0.1, 1, 2, 6, 30, 300])
def test_two_dead_transactions_in_a_row_are_over_before_the_lease_and_five_seconds(lease_s: float) -> None:
    timeouts = Timeouts.of_lease(lease_s)
    assert 2 * timeouts.idle_s < lease_s + 5
    assert timeouts.idle_s < timeouts.lock_s <= lease_s + 5
    assert timeouts.lock_s < timeouts.statement_s
    probes_s = timeouts.keepalive_idle_s + 3 * timeouts.keepalive_interval_s
    assert probes_s <= lease_s + 5


def test_every_time_is_one_that_postgresql_takes() -> None:
    for value in Timeouts.of_lease(0.001).session_settings().values():
        assert int(value) >= 1


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_both_ends_of_a_tcp_connection_probe_each_other(data_dir: Path, run: Callable[[Any], None]) -> None:
    # Its port stays 5432, which names its socket; the address is one that no other test's server has.
    address = f"127.{os.getpid() >> 16 & 127 | 64}.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
    server = PrivatePostgres(data_dir, pg_bin=PG_BIN, settings={"fsync": "off", "listen_addresses": address})

    async def look() -> None:
        database = await Database.open(f"postgresql://roost@{address}/roost", lease_s=12)
        try:
            async with database.connection() as connection:
                for name, value in Timeouts.of_lease(12).session_settings().items():
                    assert await connection.fetchval("SELECT setting FROM pg_settings WHERE name = $1", name) == value
                transport = connection._transport
                with socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as peer:
                    assert peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
                    assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 3
                    assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 1
                    assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 6000
        finally:
            await database.close()

    server.start()
    try:
        run(look())
    finally:
        server.stop()
