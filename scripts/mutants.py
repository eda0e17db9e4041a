"""Plant faults, one at a time, in a copy of the package; the tests must catch each.

    python scripts/mutants.py            prints "16 of 16 caught" and exits with 0

A fault is a replacement in one file. The tests run against the copy and stop at the first failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The likeliest to catch a fault come first; the run stops at the first failure.
FOLDERS = ("numerics", "mechanisms", "simulate", "domain", "report", "tally", "estimate", "audit", "client")

COLLECTOR = ("collector/test_uploads.py", "collector/test_machine.py", "collector/test_roles.py")


@dataclass(frozen=True)
class Fault:
    """A replacement that must make a test fail."""

    name: str
    file: str
    right: str
    wrong: str
    folders: tuple[str, ...] = FOLDERS


FAULTS = (
    Fault(
        "a flipped comparison",
        "mechanisms/unary.py",
        "plus, minus = not_plus ^ everywhere,",
        "plus, minus = not_plus,",
    ),
    Fault(
        "p for q: a lie told as often as the truth",
        "mechanisms/channel.py",
        "if word < self.keep:",
        "if word < self.flip:",
    ),
    Fault(
        "one position never noised",
        "mechanisms/unary.py",
        "join_trits(plus & everywhere, minus & everywhere, d)",
        "join_trits(plus & everywhere >> 1, minus & everywhere >> 1, d)",
    ),
    Fault(
        "rounding away from privacy",
        "numerics/probability.py",
        "math.ceil(Fraction(numerator)",
        "math.floor(Fraction(numerator)",
    ),
    Fault(
        "an exponential just above instead of just below",
        "numerics/probability.py",
        "(1 - Fraction(2, 10**48))",
        "(1 + Fraction(2, 10**48))",
    ),
    Fault(
        "a dummy too few",
        "mechanisms/response.py",
        "self.n_keys + pick(dummy, self.pairs_per_user, bits)",
        "self.n_keys + pick(dummy, max(1, self.pairs_per_user - 1), bits)",
    ),
    Fault(
        "an off-by-one key",
        "mechanisms/response.py",
        "2 * (lie >= 2 * key)",
        "2 * (lie > 2 * key)",
    ),
    Fault(
        "a reused random word",
        "mechanisms/unary.py",
        "round_to_sign(sampled.level, words[1], bits)",
        "round_to_sign(sampled.level, words[0], bits)",
    ),
    Fault(
        "the sampling term left out of the variance, as in the papers",
        "mechanisms/channel.py",
        "(noise + owners + true_share * (l - 1)) / asked",
        "(noise + owners) / asked",
    ),
    Fault(
        "simulated counts of the wrong sign",
        "simulate/laws.py",
        "return up_kept + down_flipped + fake_up, down_kept",
        "return up_kept + up_flipped + fake_up, down_kept",
    ),
    Fault(
        "a repeated report counted again",
        "collector/store/sqlite.py",
        "fresh = set(ids) - self.known_ids(campaign, ids)",
        "fresh = set(ids)",
        COLLECTOR,
    ),
    Fault(
        "a tally that forgets what was there",
        "collector/commit.py",
        "delta = unpack(before.cells, question=round.question, n_reports=before.n_reports) + delta",
        "pass",
        COLLECTOR,
    ),
    Fault(
        "a report counted after the round's time",
        "collector/commit.py",
        "is_open = row is not None and (row.closes_at is None or now < row.closes_at)",
        "is_open = row is not None",
        COLLECTOR,
    ),
    Fault(
        "a revoked token that still opens",
        "collector/commit.py",
        "if upload.token in dead:",
        "if upload.token is dead:",
        COLLECTOR,
    ),
    Fault(
        "a token that opens other campaigns",
        "collector/tokens.py",
        "return self.campaign is None or self.campaign == campaign",
        "return True",
        COLLECTOR,
    ),
    Fault(
        "a lost answer told as too late",
        "collector/commit.py",
        "upload.mark((place,), DUPLICATE if name in counted else status)",
        "upload.mark((place,), status)",
        COLLECTOR,
    ),
)


def is_caught(fault: Fault) -> bool:
    """Whether some test fails once the fault is in."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        target = source / "keyveil" / fault.file
        text = target.read_text(encoding="utf-8")
        if text.count(fault.right) != 1:
            sys.exit(f"{fault.name}: expected its text once in {fault.file}, found {text.count(fault.right)}")
        target.write_text(text.replace(fault.right, fault.wrong), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not nightly"]
        run = subprocess.run(
            [*command, *(str(ROOT / "tests" / folder) for folder in fault.folders)],
            env={**os.environ, "PYTHONPATH": str(source)},
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
    # 1: tests ran and failed. Anything else (usage, collection) is no catch but a broken script.
    if run.returncode not in (0, 1):
        sys.exit(f"{fault.name}: pytest could not run\n{run.stdout}{run.stderr}")
    return run.returncode == 1


def main() -> None:
    """Try every fault, two at a time, and say how many were caught."""
    caught = 0
    with ThreadPoolExecutor(max_workers=2) as pool:
        for fault, found in zip(FAULTS, pool.map(is_caught, FAULTS), strict=True):
            caught += found
            print(f"{'caught' if found else 'MISSED'}  {fault.name}", flush=True)
    print(f"{caught} of {len(FAULTS)} caught")
    sys.exit(caught != len(FAULTS))


if __name__ == "__main__":
    main()
