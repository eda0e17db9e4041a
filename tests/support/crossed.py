"""Small campaigns whose records are crossed."""

from __future__ import annotations

from typing import Any

from keyveil import Campaign


def asking(**fields: Any) -> Campaign:
    """A campaign about two keys, or what the fields say."""
    told = {"name": "crossed", "epsilon": 1.0, "keys": ["maps", "mail"], "value_range": [0.0, 60.0]}
    return Campaign.from_fields({**told, "pairs_per_user": 2, "mechanism": "bucket", **fields})
