"""`keyveil mechanisms`: what there is."""

from __future__ import annotations

import json

import click


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def mechanisms(as_json: bool) -> None:
    """List the mechanisms, their rounds and their allocations."""
    from importlib.metadata import entry_points

    from keyveil.methods import METHODS, find_method
    from keyveil.protocols import build_protocol

    outside = sorted({point.name for point in entry_points(group="keyveil.mechanisms")})
    listed = dict(METHODS) | {name: find_method(name)[0] for name in outside}

    rows = [
        {
            "mechanism": name,
            "what": method.what,
            "rounds": len(build_protocol(name, 1.0, n_keys=4, pairs_per_user=2).stages()),
            "distribution": method.gives_distribution,
            "allocations": list(method.allocations),
        }
        for name, method in listed.items()
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    from keyveil.cli.console import output, table

    cells = [
        (
            str(row["mechanism"]),
            str(row["rounds"]),
            str(row["what"]),
            ", ".join(listed[str(row["mechanism"])].allocations),
        )
        for row in rows
    ]
    columns = ("mechanism", "rounds", "what it does", "allocations, default first")
    output().print(table("", columns, cells, prose=[2, 3]))
