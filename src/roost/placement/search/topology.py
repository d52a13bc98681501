"""What an index shows of segments and their hosts that keeps servers from addresses, or gives them the wrong ones."""

from roost.placement.search.index import Index


def list_segments_without_hosts(index: Index) -> list[str]:
    """Return the UUIDs of counted segments that share no placement aggregate with any host, in order."""
    return sorted(index.uuids[row] for row in index.networks if not _hosts_of(index, row))


def list_hosts_on_two_segments(index: Index) -> list[tuple[str, str]]:
    """Return (host name, network id) of hosts on several segments of one network, in order."""
    hosts_met: set[tuple[int, str]] = set()
    twice: set[tuple[str, str]] = set()
    for row, network_id in index.networks.items():
        hosts = {(root, network_id) for root in _hosts_of(index, row)}
        twice |= {(index.names[root], network_id) for root, _ in hosts & hosts_met}
        hosts_met |= hosts
    return sorted(twice)


def _hosts_of(index: Index, segment_row: int) -> set[int]:
    """Return the rows of the hosts that share a placement aggregate with a segment."""
    members = {
        int(index.root_row[row])
        for aggregate in index.placement_aggregates[segment_row]
        for row in index.rows_in_aggregate(aggregate)
    }
    return members - index.networks.keys()
