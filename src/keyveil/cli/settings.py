"""Options that several commands share.

`--set NAME=VALUE`: options of a method, such as rounds=5, bins=32 or top=10. `--token`: who asks a
collector; better given as KEYVEIL_TOKEN, because other users of a machine see arguments.
"""

from __future__ import annotations

import click

set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the method, such as rounds=5.",
)

token_option = click.option(
    "--token",
    envvar="KEYVEIL_TOKEN",
    metavar="TOKEN",
    help="A token of the collector; KEYVEIL_TOKEN in the environment if left out.",
)
