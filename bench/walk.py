"""The walk of one pair: how many files of this library a reader meets from `submit` to the chart.

    python bench/walk.py [--json FILE] [--beside FILE]   prints a table and rewrites bench/results/walk.json

A collector runs in this process as `keyveil serve` starts it. A device that has read its round submits one
pair and sends it; an operator closes the round, and what was found is stored; an analyst asks for the
release, or for the results that the dashboard draws. Whoever wants to follow a step reads every file in which
a function was called meanwhile, so these are counted: of the device for `submit` and `send`, of the
collector's threads for the rest, without what its clock does every second. Each step is walked once before:
what is only done the first time a process does it (tables that are made, modules that are imported) is no
part of the path. Every campaign and every token is new, so that no cache shortens the walk; nobody has asked
for the release before the results.

`--beside` names a result of an older commit, which stays in the file as "before":
PYTHONPATH=OLD/src python bench/walk.py --json before.json
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import signal
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import keyveil
from keyveil.campaign import Campaign
from keyveil.cli.app import keyveil as command
from keyveil.client import Reporter
from keyveil.tally.bits import warm_up

RESULTS = Path(__file__).parent / "results" / "walk.json"
ROOT = f"{Path(keyveil.__file__).parent}{os.sep}"
# At most so many files a step.
GOALS = {"submit": 15, "upload": 30, "release": 20, "results": 22}
FIELDS = {
    "epsilon": 1.0,
    "keys": [f"app-{code}" for code in range(12)],
    "value_range": [0, 60],
    "pairs_per_user": 1,
    "mechanism": "pckv-ue",
    "owner": "bench",
    "purpose": "to count files",
    "expires": "2099-01-01",
}
# Seconds in which a collector has answered everything, and rests.
QUIET = 0.5
CHORES = ("tick", "tidy", "resume", "warm_up", "flush_log")


class Recorder:
    """Notes in which files functions are called, for the threads that are asked about."""

    def __init__(self) -> None:
        self.device: set[str] = set()
        self.collector: set[str] = set()
        self.is_on = False
        self.walker = 0
        self._chores: dict[int, str] = {}
        """What each thread does because the clock says so."""

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """What the interpreter tells of every call."""
        code, thread = frame.f_code, threading.get_ident()
        if event not in ("call", "return") or not code.co_filename.startswith(ROOT):
            return
        if self._chores.get(thread) == code.co_name and event == "return":
            del self._chores[thread]
        elif event == "call" and code.co_name in CHORES:
            self._chores.setdefault(thread, code.co_name)
        elif self.is_on and event == "call" and code.co_name != "<module>" and thread not in self._chores:
            is_device = thread == self.walker or threading.current_thread().name == "keyveil-request"
            (self.device if is_device else self.collector).add(code.co_filename.removeprefix(ROOT))

    @contextmanager
    def on(self) -> Iterator[None]:
        """Record what happens meanwhile."""
        self.device, self.collector, self.is_on = set(), set(), True
        yield
        time.sleep(QUIET)
        self.is_on = False


class Walker(threading.Thread):
    """Asks the collector in this process for everything, in order."""

    def __init__(self, recorder: Recorder, out: io.StringIO, folder: Path) -> None:
        super().__init__(daemon=True)
        self._recorder, self._out, self._folder = recorder, out, folder
        self.files: dict[str, list[str]] = {}
        self.failed: BaseException | None = None

    def run(self) -> None:
        """Walk twice, then stop the collector."""
        try:
            self._recorder.walker = threading.get_ident()
            while (found := re.search(r"once: (\S+)\s.*?(http://\S+)", self._out.getvalue(), re.S)) is None:
                time.sleep(0.05)
            _wait_for(found[2])
            for name in ("first", "second"):
                for what in ("release", "results"):
                    self._walk(f"{name} {what}", what, *found.groups())
        except BaseException as error:
            self.failed = error
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    def _walk(self, name: str, what: str, token: str, base: str) -> None:
        campaign = Campaign(**{**FIELDS, "name": name})
        created = json.loads(_ask(f"{base}/v1/campaigns", token, json.loads(campaign.canonical_json)))
        url = f"{base}/v1/campaigns/{campaign.id}"
        device = Reporter.connect(url, ledger=self._folder / name, token=created["device_token"])
        device.enable()
        with self._recorder.on():
            assert (made := device.submit({"app-3": 12.0})), str(made)
        self.files["submit"] = sorted(self._recorder.device)
        with self._recorder.on():
            assert (sent := device.upload(timeout=60)), str(sent)
        self.files["send"] = sorted(self._recorder.device)
        self.files["upload"] = sorted(self._recorder.collector)
        with self._recorder.on():
            _ask(f"{url}/rounds/1/close", token, {})
        self.files["close"] = sorted(self._recorder.collector)
        with self._recorder.on():
            _ask(f"{url}/{what}", token)
        self.files[what] = sorted(self._recorder.collector)


def _wait_for(base: str) -> None:
    """Until the collector answers, and has done what it does once it is started."""
    while True:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{base}/healthz").close()
            break
        time.sleep(QUIET / 4)
    time.sleep(4 * QUIET)


def _ask(url: str, token: str, body: Any = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, data=data, headers=headers)) as response:
        answer: bytes = response.read()
    return answer


def walk() -> dict[str, list[str]]:
    """The files of each step."""
    recorder, out = Recorder(), io.StringIO()
    # Loops are compiled in Python, which takes minutes where every call is recorded.
    warm_up()
    with tempfile.TemporaryDirectory() as folder:
        walker = Walker(recorder, out, Path(folder))
        threading.setprofile(recorder)
        sys.setprofile(recorder)
        walker.start()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            command.main(
                ["serve", "--port", "0", "--store", f"sqlite:///{folder}/walk.db"], standalone_mode=False
            )
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        walker.join()
    if walker.failed is not None:
        raise walker.failed
    return walker.files


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--beside", type=Path, metavar="FILE", help="a result of an older commit")
    given = parser.parse_args()
    before = {}
    if given.beside is not None:
        before = json.loads(given.beside.read_text())["files"]
    elif given.json.exists():
        before = json.loads(given.json.read_text()).get("before", {})
    files = walk()
    print(f"{'step':10}{'before':>8}{'files':>8}{'goal':>8}")
    for step, found in files.items():
        print(f"{step:10}{len(before.get(step, ())) or '':>8}{len(found):>8}{GOALS.get(step, ''):>8}")
    said = {"goals": GOALS, "counts": {step: len(found) for step, found in files.items()}, "files": files}
    given.json.write_text(json.dumps(said | {"before": before}, indent=1) + "\n")


if __name__ == "__main__":
    main()
