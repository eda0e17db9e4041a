"""`keyveil backup`: a copy of a running collector's embedded store."""

from __future__ import annotations

from pathlib import Path

import click

from keyveil.cli.asking import Server, server_options
from keyveil.errors import StoreError


@click.command()
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="The file to write.")
@server_options
def backup(out: Path, url: str, token: str | None) -> None:
    """Copy the embedded store while it is in use. The copy opens with `keyveil serve --store sqlite:///FILE`."""
    if out.exists():
        raise StoreError(f"{out} exists already and stays as it is; name another file for the copy")
    Server(url=url, token=token).download("/v1/backup", out, is_private=True)
    click.echo(f"wrote {out}", err=True)
