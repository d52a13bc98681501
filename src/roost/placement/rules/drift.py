"""The kinds of drift of the ledger: what is said of each, and what its repair does. SQL or `neutron.py` tells them."""

from roost.platform.drift import Kind

# fmt: off
USE_WRONG = Kind("use-wrong", "use of an inventory is not the sum of its allocations", "summed anew")
ALLOCATION_STRAY = Kind("allocation-stray", "an allocation or inventory has no provider, or no consumer", "removed")
ALLOCATION_UNBACKED = Kind("allocation-unbacked", "an allocation has no inventory",
    "published again with its provider, if that is Roost's own")
ROOT_WRONG = Kind("root-wrong", "the root of a provider is not the top of its tree", "set again")
INVENTORY_UNLIKE_POOLS = Kind("inventory-unlike-pools",
    "the inventory of a segment is not what Neutron's pools and ports make it", "set again")
PORT_UNCLAIMED = Kind("port-unclaimed", "a port in Neutron has addresses that neither its server nor itself claims",
    "claimed by itself, if there is room")
CLAIM_PORTLESS = Kind("claim-portless", "addresses are claimed that no port in Neutron has", "given back")
CONSUMER_EMPTY = Kind("consumer-empty", "a consumer holds nothing", "removed")
# fmt: on
