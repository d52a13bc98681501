"""How many more servers fit: counted on a copy of the ledger's index, beside its requests."""

import asyncio
from functools import partial
from random import Random

from roost.compute.service.aggregates import list_host_aggregates
from roost.network.service.views import list_networks
from roost.seeing.rules.capacity import Capacity, find_capacity
from roost.seeing.rules.cloud_table import CloudTable, make_table
from roost.seeing.rules.host_groups import group_hosts
from roost.seeing.rules.questions import ServersAsked
from roost.seeing.service.context import Seeing
from roost.seeing.service.questions import copy_index, read_question


async def count_servers(seeing: Seeing, asked: ServersAsked) -> Capacity:
    """Return how many more of these servers fit. Raises what read_question raises, and LedgerElsewhere."""
    question = await read_question(seeing, asked)
    aggregates = await list_host_aggregates(seeing.compute)
    index, random = await copy_index(seeing), Random(seeing.env.random.randrange(2**32))
    groups = group_hosts(index, aggregates, default_zone=seeing.compute.settings.default_availability_zone)
    work = partial(find_capacity, index, question.requests, random, seeing.scheduling)
    return await asyncio.to_thread(work, zones=groups.zones, aggregates=groups.aggregates)


async def read_table(seeing: Seeing) -> CloudTable:
    """Return what is free of everything, by segment, zone and aggregate. Raises LedgerElsewhere."""
    networks = await list_networks(seeing.networks)
    aggregates = await list_host_aggregates(seeing.compute)
    index = await copy_index(seeing)
    groups = group_hosts(index, aggregates, default_zone=seeing.compute.settings.default_availability_zone)
    return await asyncio.to_thread(make_table, index, networks, groups)
