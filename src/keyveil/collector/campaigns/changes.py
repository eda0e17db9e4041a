"""What changed between two campaigns, and whether reports to the old one may serve the new one.

A report carries the hash of its campaign, so it is never counted under another. What can stay usable is
the old campaign's reports, read as the new one would read them: that is so where only words changed.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import msgspec

from keyveil.campaign import Campaign
from keyveil.methods import mechanism_of

# Fields that say something about the campaign and nothing about a report.
_WORDS = ("name", "owner", "purpose", "expires", "unit", "names")


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One field that differs."""

    field: str
    before: Any
    after: Any
    reports_stay_usable: bool
    why: str


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two campaigns side by side."""

    before: str
    after: str
    same: bool
    reports_stay_usable: bool
    changes: tuple[Change, ...]


def compare(old: Campaign, new: Campaign) -> Comparison:
    """What changed from one campaign to another.

    >>> one = Campaign(name="apps", epsilon=1.0, keys=("a", "b"), value_range=(0, 1), pairs_per_user=1,
    ...                mechanism="privkv")
    >>> from dataclasses import replace
    >>> found = compare(one, replace(one, keys=("a", "c"), mechanism="privkv-mle"))
    >>> [(change.field, change.reports_stay_usable) for change in found.changes]
    [('keys', False), ('mechanism', True)]
    """
    changes = tuple(
        _change(field.name, getattr(old, field.name), getattr(new, field.name))
        for field in fields(Campaign)
        if getattr(old, field.name) != getattr(new, field.name)
    )
    return Comparison(
        before=old.id,
        after=new.id,
        same=not changes,
        reports_stay_usable=all(change.reports_stay_usable for change in changes),
        changes=changes,
    )


def _change(name: str, before: Any, after: Any) -> Change:
    if name in _WORDS:
        stays, why = True, "words do not change what a report says"
    elif name == "mechanism" and mechanism_of(before) == mechanism_of(after):
        stays, why = True, "another estimator for the same reports"
    elif name == "keys":
        stays, why = False, "a report speaks of keys by their place in the list"
        before, after = _keys(before, after), _keys(after, before)
    elif name == "ids":
        stays, why = False, "where ids are issued, the index or hash of a report follows from its id"
    elif name == "dither":
        stays, why = False, "values are rounded by another word, or counted in other bins"
    elif name == "segments":
        stays, why = False, "a report says its labels by the places of attributes and values"
        before, after = (None if each is None else each.to_fields() for each in (before, after))
    elif name in ("value_range", "beyond"):
        stays, why = False, "a report speaks of values by their place in the range"
    else:
        stays, why = False, "reports are drawn from another kernel"
    return Change(field=name, before=before, after=after, reports_stay_usable=stays, why=why)


def _keys(these: tuple[str, ...], others: tuple[str, ...]) -> dict[str, Any]:
    """How many there are, and the first that the other list lacks."""
    missing = set(others)
    return {"count": len(these), "only_here": [key for key in these if key not in missing][:20]}
