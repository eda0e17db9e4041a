"""What all rounds together come to.

The path of a number: a large group's tally is debiased (`measure`), what those who checked say about
truncation is put beside it (`check`), all keys together pull it to what is plausible (`shrink`: published),
and the unbiased number is brought from cut records to whole ones (`untruncate`: raw, with its interval).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.estimate import Estimates, Lever, Levers, Pull
from keyveil.estimate.shrink import NO_ANCHOR, Anchor, Earlier, Shrunk, shrink
from keyveil.estimate.sizes import SizeLaw, Truncation
from keyveil.estimate.whole import Truncations, untruncate
from keyveil.protocols.auto import check, discover, measure, sizes, values
from keyveil.protocols.auto.answers import Answers
from keyveil.protocols.auto.discover import Discovered
from keyveil.protocols.auto.measure import Measured
from keyveil.protocols.auto.notes import notes
from keyveil.protocols.auto.settings import Settings
from keyveil.protocols.base import Outcome
from keyveil.protocols.ks_grr import widen

TRUNCATED = "records are cut; frequencies are brought back to whole ones, and their errors allow for it"


class Found(NamedTuple):
    """What one round or two found of all keys."""

    raw: Estimates
    """Unbiased, about records as they were cut."""
    cut: Truncation | Truncations
    """How."""
    is_cut: bool
    shrunk: Shrunk
    notes: tuple[str, ...]


def outcome(settings: Settings, answers: Answers) -> Outcome:
    """What is published, and the unbiased numbers behind it."""
    law = sizes.law(settings, answers)
    anchor = values.anchor(settings, answers, law)
    find = _in_two_rounds if answers.were_asked("discover") else _in_one_round
    found = find(settings, answers, law, anchor or NO_ANCHOR)
    raw, said = found.raw, found.notes
    if found.is_cut:
        raw = untruncate(raw, found.cut, settings.tuning.size_model.unmodelled)
        said = (*said, TRUNCATED)
    mean = found.shrunk.mean
    if not _tells_means(raw, answers):
        mean = np.full_like(mean, np.nan)
        raw = replace(raw, mean=mean)
    published = replace(
        raw,
        frequency=found.shrunk.frequency,
        frequency_top=found.shrunk.frequency_top,
        mean=mean,
        steps=(*raw.steps, "shrink"),
    )
    return Outcome(
        raw=raw,
        published=published,
        notes=said,
        rounds=answers.n_rounds,
        anchor=None if anchor is None else anchor.mean,
    )


def _tells_means(raw: Estimates, answers: Answers) -> bool:
    """Whether anybody was asked for a value: the large group by signs, or a group of its own."""
    return bool(np.isfinite(raw.signed_se).any()) or answers.were_asked("values")


def _in_one_round(settings: Settings, answers: Answers, law: SizeLaw, anchor: Anchor) -> Found:
    """`collect`, as those who checked correct it."""
    measured = measure.read(answers.required("collect"), law)
    main = check.apply(settings, answers, measured)
    shrunk = shrink(
        main.seen,
        total=sizes.total(law),
        anchor=anchor,
        top=settings.top,
        tuning=settings.tuning.shrinking,
    )
    said = notes(settings, answers, law, measured.raw, measured.cut)
    return Found(main.raw, main.cut, not main.cut.is_idle, shrunk, said)


def _in_two_rounds(settings: Settings, answers: Answers, law: SizeLaw, anchor: Anchor) -> Found:
    """Candidates by `discover` and `measure` together, the rest by `discover`."""
    first = discover.read(settings, answers.required("discover"), law)
    candidates = discover.read_overlap(settings, answers)
    main = check.apply(settings, answers, measure.read(answers.required("measure"), candidates.law))
    shrunk = shrink(
        main.seen,
        total=sizes.total(law),
        anchor=anchor,
        top=settings.top,
        earlier=Earlier(first.seen, first.shrunk.prior, np.array(candidates.keys)),
        tuning=settings.tuning.shrinking,
    )
    rest = np.ones(settings.n_keys, dtype=np.bool_)
    rest[list(candidates.keys)] = False
    cut = Truncations(here=rest, first=first.seen.truncation, second=main.cut)
    said = notes(settings, answers, law, first.raw, first.seen.truncation)
    return Found(_merge(first, main, candidates.keys), cut, not main.cut.is_idle, shrunk, said)


def _merge(first: Discovered, main: Measured, keys: tuple[int, ...]) -> Estimates:
    """The measured candidates among the discovered frequencies of all other keys."""
    wide = widen(main.raw, keys, first.raw.frequency.size)
    rest = wide.asked == 0
    return replace(
        wide,
        n_reports=wide.n_reports + first.raw.n_reports,
        asked=np.where(rest, first.raw.asked, wide.asked),
        frequency=np.where(rest, first.raw.frequency, wide.frequency),
        frequency_se=np.where(rest, first.raw.frequency_se, wide.frequency_se),
        lever=_levers(rest, first.raw.lever, wide.lever),
    )


def _levers(rest: NDArray[np.bool_], first: Pull | None, second: Pull | None) -> Levers | None:
    """What one report can do to a key of either round; nothing is said where one of them says nothing."""
    if isinstance(first, Lever) and isinstance(second, Lever):
        return Levers(here=rest, first=first, second=second)
    return None
