"""`--set NAME=VALUE`: options of a method, such as rounds=5, bins=32 or top=10."""

from __future__ import annotations

import click

set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the method, such as rounds=5.",
)
