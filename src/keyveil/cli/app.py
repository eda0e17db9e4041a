"""The command and its sub-commands, by name; each is imported only when it is asked for."""

from __future__ import annotations

from importlib import import_module

import click

import keyveil as package

# In the order of a campaign's life. Each names a module of this folder and the command in it.
COMMANDS = (
    "demo",
    "init",
    "try",
    "mechanisms",
    "plan",
    "audit",
    "simulate",
    "zoo",
    "perturb",
    "serve",
    "relay",
    "sealing-key",
    "campaign",
    "series",
    "token",
    "backup",
    "verify",
    "send",
    "tally",
    "estimate",
    "attack",
    "reproduce",
)

# Where a command's name is no name in Python.
_PLACES = {"try": "trial", "sealing-key": "sealing_key"}


class _LazyGroup(click.Group):
    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        place = _PLACES.get(name, name)
        command: click.Command = getattr(import_module(f"keyveil.cli.{place}"), place)
        return command


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package.__version__, prog_name="keyveil")
def keyveil() -> None:
    """Learn how many people use what, and how much, without anyone handing over the truth."""
