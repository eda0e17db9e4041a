"""Many users' records over what is asked about: `Crossing.of`, record by record, in arrays."""

from __future__ import annotations

import numpy as np

from keyveil.batch.records import Ints, Records
from keyveil.domain import Crossing, Labelled


def crossed(records: Records, crossing: Crossing, labels: Ints | None = None) -> Records:
    """The records that devices make of theirs; without labels everybody is of the first segment.

    >>> from keyveil.domain import Pairs, Record
    >>> held, both = [Record.of({0: 1.0, 2: -1.0}), Record.of({1: 0.0})], Pairs.among(range(3))
    >>> over = crossed(Records.of(held), both)
    >>> [over.record(user) for user in range(2)] == [both.of(record) for record in held]
    True
    """
    n_users = len(records)
    users = np.repeat(np.arange(n_users), records.sizes)
    if isinstance(crossing, Labelled):
        starts = (np.zeros(n_users, dtype=np.int64) if labels is None else labels) * crossing.width
        owners = np.concatenate([users, np.arange(n_users)])
        codes = np.concatenate([starts[users] + records.codes, starts + crossing.n_keys])
        values = np.concatenate([records.values, np.ones(n_users)])
    else:
        keys, held = np.array(crossing.keys), np.array(crossing.held)
        place = np.full(max(int(keys.max()), int(records.codes.max(initial=0))) + 1, -1)
        place[keys] = np.arange(keys.size)
        table = np.full((keys.size + 1, keys.size + 1), -1)
        table[place[held[:, 0]], place[held[:, 1]]] = keys.size + 2 * np.arange(len(held))
        alone = place[records.codes]
        first, second = _within_users(records)
        # A key that is in no pair has place -1: the last row and column, which are empty.
        code = table[alone[first], alone[second]]
        first, second, code = first[code >= 0], second[code >= 0], code[code >= 0]
        asked = alone >= 0
        owners = np.concatenate([users[asked], users[first], users[first]])
        codes = np.concatenate([alone[asked], code, code + 1])
        values = np.concatenate([records.values[asked], records.values[first], records.values[second]])
    order = np.lexsort((codes, owners))
    return Records(
        offsets=np.concatenate(([0], np.cumsum(np.bincount(owners, minlength=n_users)))),
        codes=codes[order],
        values=values[order],
    )


def _within_users(records: Records) -> tuple[Ints, Ints]:
    """The places of every two pairs of the same user, the smaller code first."""
    rank = np.arange(records.codes.size) - np.repeat(records.offsets[:-1], records.sizes)
    later = np.repeat(records.sizes, records.sizes) - rank - 1
    first = np.repeat(np.arange(rank.size), later)
    within = np.arange(first.size) - np.repeat(np.cumsum(later) - later, later)
    return first, first + 1 + within
