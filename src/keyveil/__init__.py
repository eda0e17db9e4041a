"""keyveil learns how many people use what, and how much, without anyone handing over the truth.

The path of a datum is the list of folders: a user's record (`domain`) is noised by a mechanism
(`mechanisms`) into a report (`report`), counted in a tally (`tally`), debiased into estimates
(`estimate`) and published as a release (`release`).

Importing this package loads nothing but itself; names are fetched when they are used, so that a
device which needs only `keyveil.client` never meets numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keyveil.campaign import Campaign
    from keyveil.domain import Domain

__version__ = "0.1.0"
__all__ = ["Campaign", "Domain", "__version__"]

_HOMES = {"Campaign": "keyveil.campaign", "Domain": "keyveil.domain"}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'keyveil' has no attribute {name!r}")
