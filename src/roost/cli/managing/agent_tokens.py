"""`roost-manage agent-token`: makes, lists and revokes the tokens by which agents authenticate."""

import sys
from collections.abc import Sequence

import msgspec
from rich.console import Console

from roost.cli.managing.ledger_target import LedgerTarget, open_existing
from roost.cli.tables import print_rows
from roost.compute.service import agent_tokens as service


async def create(target: LedgerTarget, *, hosts: Sequence[str], name: str, as_json: bool) -> None:
    """Make a token and print it: alone on standard output, so that a file can take it."""
    async with open_existing(target, schemas=("compute",)) as database:
        kept, token = await service.create_agent_token(database, hosts=hosts, name=name)
    if as_json:
        _print_json({"token": token, **msgspec.structs.asdict(kept)})
        return
    print(token, flush=True)  # noqa: T201
    print(f"Token {kept.id} is for {', '.join(kept.hosts)}. It is not shown again.", file=sys.stderr)  # noqa: T201


async def list_tokens(target: LedgerTarget, console: Console, *, as_json: bool) -> None:
    """Print all tokens, without themselves."""
    async with open_existing(target, schemas=("compute",)) as database:
        tokens = await service.list_agent_tokens(database)
    if as_json:
        _print_json(tokens)
        return
    if not tokens:
        console.print("There are no agent tokens.")
        return
    rows = []
    for token in tokens:
        revoked = "" if token.revoked_at is None else f"{token.revoked_at:%Y-%m-%d %H:%M}"
        last_used = "never" if token.last_used_on is None else f"{token.last_used_on:%Y-%m-%d}"
        created = f"{token.created_at:%Y-%m-%d %H:%M}"
        rows.append((token.id, token.name, ", ".join(token.hosts), created, last_used, revoked))
    print_rows(console, ("id", "name", "hosts", "created", "last used", "revoked"), rows)


async def revoke(target: LedgerTarget, token_id: str, *, as_json: bool) -> None:
    """Revoke a token and say so; one that was revoked before stays so."""
    async with open_existing(target, schemas=("compute",)) as database:
        revoked = await service.revoke_agent_token(database, token_id)
    if as_json:
        _print_json(revoked)
        return
    print(f"Token {revoked.id} is revoked since {revoked.revoked_at:%Y-%m-%d %H:%M:%S} UTC.")  # noqa: T201


def _print_json(answer: object) -> None:
    print(msgspec.json.encode(answer).decode(), flush=True)  # noqa: T201
