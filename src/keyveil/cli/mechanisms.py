"""`keyveil mechanisms`: what there is."""

from __future__ import annotations

import inspect
import json

import click

from keyveil.mechanisms import REGISTRY, Mechanism


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def mechanisms(as_json: bool) -> None:
    """List the mechanisms and their allocations."""
    if as_json:
        rows = [
            {"mechanism": name, "what": _story(cls), "allocations": _allocations(cls)}
            for name, cls in REGISTRY.items()
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    from keyveil.cli.console import output, table

    made = table(
        "",
        ("mechanism", "what it does", "allocations, default first"),
        [(name, _story(cls), ", ".join(_allocations(cls))) for name, cls in REGISTRY.items()],
    )
    made.columns[1].justify = made.columns[2].justify = "left"
    made.columns[1].no_wrap = False
    output().print(made)


def _allocations(cls: type[Mechanism]) -> list[str]:
    return [allocation.value for allocation in cls.allocations]


def _story(cls: type[Mechanism]) -> str:
    """The first line of the file in which a mechanism is defined, without its name."""
    story = inspect.getdoc(inspect.getmodule(cls)) or ""
    return story.partition("\n")[0].partition(": ")[2].rstrip(".")
