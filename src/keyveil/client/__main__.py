"""`python -m keyveil.client status device.db`: a device's ledger, looked at by whoever looks after it."""

from __future__ import annotations

import argparse
import json
import sys

from keyveil.client.status import look, words
from keyveil.errors import LedgerError


def main(arguments: list[str] | None = None) -> int:
    """Print what the ledger says; 2 where it cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m keyveil.client", description="Look after a device.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    status = commands.add_parser("status", help="what was spent, what waits and why; changes nothing")
    status.add_argument("ledger", help="the device's ledger, a file")
    status.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args(arguments)
    try:
        found = look(asked.ledger)
    except LedgerError as error:
        print(f"keyveil: {error}", file=sys.stderr)
        return 2
    print(json.dumps(found, indent=2) if asked.json else words(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
