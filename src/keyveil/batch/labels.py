"""The labels of many users, from columns that say what they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from keyveil.batch.records import Ints
from keyveil.batch.stream import Bytes
from keyveil.segments import Segments


def labels_of(segments: Segments, users: Ints, columns: Mapping[str, Any], n_users: int) -> Bytes:
    """A row of labels a user, from Arrow columns by attribute, of rows that belong to `users`.

    Of a user whose rows say several things the first counts. What is not declared, not said, or in no column,
    is "other".

    >>> import pyarrow as pa
    >>> by = Segments(told="clear", attributes=(("platform", ("android", "ios")),))
    >>> said = {"platform": pa.array(["ios", None, "ios", "web"])}
    >>> labels_of(by, np.array([0, 1, 1, 2]), said, 4).tolist()
    [[2], [2], [0], [0]]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    labels = np.zeros((n_users, len(segments.names)), dtype=np.uint8)
    for place, (name, values) in enumerate(segments.attributes):
        if name not in columns:
            continue
        texts = columns[name].cast(pa.string())
        found = pc.fill_null(pc.index_in(texts, pa.array(values, pa.string())), -1)
        said = pc.is_valid(texts).to_numpy(zero_copy_only=False)
        owners, first = np.unique(users[said], return_index=True)
        labels[owners, place] = 1 + found.to_numpy(zero_copy_only=False)[said][first]
    return labels
