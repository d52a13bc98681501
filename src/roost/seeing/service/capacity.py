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
from roost.seeing.rules.what_if import WhatIf
from roost.seeing.service.context import Seeing
from roost.seeing.service.questions import read_question
from roost.seeing.service.what_if import CloudChanged, read_cloud


async def count_servers(
    seeing: Seeing, asked: ServersAsked, what_if: WhatIf | None = None
) -> tuple[Capacity, CloudChanged]:
    """Return how many more of these servers fit, and into which cloud.

    Raises what read_question and read_cloud raise.
    """
    question = await read_question(seeing, asked)
    aggregates = await list_host_aggregates(seeing.compute)
    cloud, random = await read_cloud(seeing, what_if), Random(seeing.env.random.randrange(2**32))
    groups = group_hosts(cloud.index, aggregates, default_zone=seeing.compute.settings.default_availability_zone)
    work = partial(find_capacity, cloud.index, question.requests, random, seeing.placing)
    return await asyncio.to_thread(work, zones=groups.zones, aggregates=groups.aggregates), cloud


async def read_table(seeing: Seeing, what_if: WhatIf | None = None) -> tuple[CloudTable, CloudChanged]:
    """Return what is free of everything, by segment, zone and aggregate, and in which cloud.

    Raises what read_cloud raises.
    """
    networks = await list_networks(seeing.networks)
    aggregates = await list_host_aggregates(seeing.compute)
    cloud = await read_cloud(seeing, what_if)
    groups = group_hosts(cloud.index, aggregates, default_zone=seeing.compute.settings.default_availability_zone)
    return await asyncio.to_thread(make_table, cloud.index, networks, groups), cloud
