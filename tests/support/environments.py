"""Virtual environments with one of our wheels and what an extra of it brings: exactly that, in two seconds.

An extra's packages are found as an installer finds them, from the wheel's own metadata and that of every
package it asks for, and their files are linked, one by one, from the environment that runs the tests: the
same bytes as pip put there, without fetching and copying them again. Then pip installs the wheel with the
extra, without an index: it refuses where a package is missing or has a version that the wheel does not take.
"""

import os
import subprocess
import sys
import venv
import zipfile
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


class Environment:
    """A virtual environment: another interpreter, another site-packages, none of the tests' paths."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=sys.platform != "win32")
        self.commands = folder / ("Scripts" if sys.platform == "win32" else "bin")
        self.python = self.commands / "python"
        (self.packages,) = (
            [folder / "Lib" / "site-packages"]
            if sys.platform == "win32"
            else folder.glob("lib/python*/site-packages")
        )

    def run(self, *command: object, **options: object) -> subprocess.CompletedProcess[str]:
        """A program of this environment, as a person who has activated it runs it."""
        kept = {name: word for name, word in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
        kept["PATH"] = os.pathsep.join([str(self.commands), kept.get("PATH", "")])
        words = [str(word) for word in command]
        return subprocess.run(words, capture_output=True, text=True, env=kept, **options)  # type: ignore[call-overload]

    def link(self, distribution: str) -> None:
        """The files of a distribution that the tests' environment has; not its commands, which start that."""
        files = [file for file in metadata.files(distribution) or () if file.parts[0] != ".."]
        for folder in {file.parent for file in files}:
            (self.packages / folder).mkdir(parents=True, exist_ok=True)
        for file in files:
            os.symlink(file.locate(), self.packages / file)

    def install(self, wheel: Path, extra: str = "") -> subprocess.CompletedProcess[str]:
        """What pip says to the wheel with an extra, where nothing can be fetched."""
        pip = (sys.executable, "-m", "pip", "--python", self.python, "install", "--quiet", "--no-index")
        return self.run(
            *pip, "--no-compile", "--disable-pip-version-check", f"{wheel}[{extra}]" if extra else wheel
        )


def make_environment(folder: Path, wheel: Path, extra: str = "") -> Environment:
    """A wheel with an extra of it, and nothing else."""
    made = Environment(folder)
    for distribution in brought_by(wheel, extra):
        made.link(distribution)
    shown = made.install(wheel, extra)
    assert shown.returncode == 0, shown.stderr
    return made


def brought_by(wheel: Path, extra: str) -> set[str]:
    """The names of all distributions that an extra of a wheel asks for, and that those ask for."""
    own = _told_by(wheel)
    ours = canonicalize_name(own.name)
    seen: set[tuple[str, str]] = set()
    left = [(ours, extra)]
    while left:
        if (asked := left.pop()) in seen:
            continue
        seen.add(asked)
        name, extra = asked
        for line in (own if name == ours else metadata.distribution(name)).requires or ():
            wanted = Requirement(line)
            if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
                left += [(canonicalize_name(wanted.name), each) for each in ("", *wanted.extras)]
    return {name for name, _ in seen} - {ours}


def _told_by(wheel: Path) -> metadata.Distribution:
    """A wheel's own metadata."""
    with zipfile.ZipFile(wheel) as archive:
        (place,) = {name.partition("/")[0] for name in archive.namelist() if ".dist-info/" in name}
    return metadata.PathDistribution(zipfile.Path(wheel, f"{place}/"))
