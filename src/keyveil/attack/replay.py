"""A report sent again: as it is, and under new ids.

As it is, it is counted once: files and collectors keep the ids that they have seen. Under new ids it is a
new report. Where a hash follows from the id, the old payload almost surely names another hash than the
new id gives and is refused; otherwise it counts, pulls like any hostile report (the bound is the same), and
long payloads betray themselves by repeating.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from keyveil.attack.attempt import Attempt
from keyveil.attack.poisoning import Counted, hostile_reports, poisoned
from keyveil.estimate import lever
from keyveil.mechanisms import Mechanism
from keyveil.report import REPORT_ID_BYTES, public_word
from keyveil.simulate.answers import Answers
from keyveil.tally.trace import encode_many


def replay(
    mechanism: Mechanism, honest: Counted, answer: Answers, share: float, *, tag: bytes, round: int = 1
) -> Iterator[Attempt]:
    """One report of an honest device, sent so often that its copies are `share` of all reports."""
    copies = hostile_reports(honest.tally.n_reports, share)
    yield Attempt(
        kind="replay",
        name="the same id again",
        success=1,
        bound=1,
        unit="reports",
        note=f"{copies} copies, one counted",
    )
    kept = accepted(mechanism, answer, copies, tag=tag, round=round)
    if not kept:
        yield Attempt(
            kind="replay",
            name="the same payload under new ids",
            success=0,
            bound=copies,
            unit="reports",
            note=f"{copies} copies, all refused: the new ids give other indices or hashes",
        )
        return
    moved = poisoned(mechanism, honest, np.repeat(answer[None], kept, axis=0))
    # Each copy is a device; where ids are handed out, most have another index and are refused.
    sent = copies if mechanism.issued else kept
    real = sent / (honest.tally.n_reports + sent)
    bound = lever(mechanism).shift(*moved.honest, real).frequency
    shift = np.abs(moved.all[0] - moved.honest[0])
    worst = int(np.argmax(shift))
    yield Attempt(
        kind="replay",
        name="the same payload under new ids",
        success=float(shift[worst]),
        bound=float(bound[worst]),
        unit="frequency",
        about=str(worst),
        alarm=moved.verdict.alarm,
        p=moved.verdict.p,
        note=f"{kept} of {copies} copies counted",
    )


def accepted(mechanism: Mechanism, answer: Answers, copies: int, *, tag: bytes, round: int) -> int:
    """How many copies under new ids a tally takes."""
    if mechanism.public_word is None:
        return copies
    decoded = mechanism.layout.decode(encode_many(mechanism.layout, answer[None])[0])
    ids = (hashlib.sha256(b"copy %d" % number).digest()[:REPORT_ID_BYTES] for number in range(copies))
    return sum(mechanism.follows(decoded, public_word(tag, round, each)) for each in ids)
