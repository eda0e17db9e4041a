"""`keyveil init telemetry`: all that a first collection needs, to be read and edited."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import keyveil
from keyveil.cli.files import write_new
from keyveil.errors import CampaignError
from keyveil.plan.draft import in_days

_DAYS = 90


def write_telemetry(folder: Path) -> list[Path]:
    """Write the files into a new or empty folder; which they are."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CampaignError(f"{folder} is not empty and stays as it is; name another with -o")
    folder.mkdir(parents=True, exist_ok=True)
    said = {"@EXPIRES@": in_days(_DAYS), "@VERSION@": keyveil.__version__}
    written = []
    for source in sorted(files(__name__).joinpath("files").iterdir(), key=lambda each: each.name):
        text = source.read_text(encoding="utf-8")
        for mark, value in said.items():
            text = text.replace(mark, value)
        path = folder / source.name
        write_new(path, text)
        written.append(path)
    return written
