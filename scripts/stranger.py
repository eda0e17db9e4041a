"""A stranger's first hour, played: a clean environment, their own file, a chart.

    python scripts/stranger.py      prints the commands, their number and the seconds; fails if one does

Builds the wheel, makes an empty virtual environment and installs the wheel there with what it asks for. The
file is one that a German spreadsheet saved: Latin-1, semicolons, decimal commas, columns user, app, minutes.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
APPS = ("Karten", "Müsli", "Café", "Post", "Schach", "Musik", "Nachrichten", "Wetter")
MOST_COMMANDS = 4


def own_file(folder: Path, users: int = 3000) -> Path:
    """The stranger's data."""
    drawn = random.Random(1)
    lines = [
        f"u{user};{app};{drawn.gammavariate(2, 10):.1f}".replace(".", ",")
        for user in range(users)
        for place, app in enumerate(APPS)
        if drawn.random() < 0.7 / (place + 1)
    ]
    path = folder / "usage.csv"
    path.write_bytes("\n".join(["user;app;minutes", *lines, ""]).encode("latin-1"))
    return path


def main() -> None:
    """Play it."""
    with tempfile.TemporaryDirectory(prefix="stranger-") as name:
        folder = Path(name)
        subprocess.run(
            [sys.executable, ROOT / "scripts" / "release.py", folder / "dist"],
            check=True,
            capture_output=True,
        )
        (wheel,) = (folder / "dist").glob("keyveil-*.whl")
        venv.create(folder / "venv", with_pip=True)
        own_file(folder)
        at = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
        install = [at / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-compile"]
        commands = (
            (
                "pip install keyveil[analysis,server]",
                [*install, "-c", ROOT / "constraints.txt", f"{wheel}[analysis,server]"],
            ),
            (
                "keyveil init usage.csv --combine sum",
                [at / "keyveil", "init", "usage.csv", "--combine", "sum"],
            ),
            (
                "keyveil try usage.csv --combine sum --campaign campaign.toml",
                [at / "keyveil", "try", "usage.csv", "--combine", "sum", "--campaign", "campaign.toml"],
            ),
        )
        total = 0.0
        for shown, command in commands:
            started = time.perf_counter()
            ended = subprocess.run(
                [str(word) for word in command], cwd=folder, capture_output=True, text=True
            )
            total += (took := time.perf_counter() - started)
            print(f"{took:6.1f} s  {shown}")
            if ended.returncode:
                sys.exit(f"failed: {ended.stderr}")
        page = (folder / "usage.csv.keyveil.html").read_text()
        held = [app for app in APPS if f"<td>{app}</td>" in page]
        print(f"{total:6.1f} s  in all: {len(commands)} commands, {len(held)} keys beside the truth")
        if len(commands) > MOST_COMMANDS or len(held) != len(APPS) or "<svg" not in page:
            sys.exit("the chart lacks something")


if __name__ == "__main__":
    main()
