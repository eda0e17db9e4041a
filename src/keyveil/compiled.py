"""Whether loops are compiled here.

Hot loops are written twice: as numpy, which is always there, and as a loop that numba compiles when it
is installed (the extra `fast`). Both give the same results, to the last bit where they count or draw.
Loops live in modules called `loops`, imported when first needed: `import keyveil` never waits for a
compiler, and compiled code is cached on disk.
"""

from __future__ import annotations

import importlib.util
import os
from functools import cache

SWITCH, THREADS = "KEYVEIL_COMPILED", "KEYVEIL_THREADS"


@cache
def is_compiled() -> bool:
    """True where numba is installed, unless the environment says KEYVEIL_COMPILED=0.

    >>> is_compiled() in (True, False)
    True
    """
    return os.environ.get(SWITCH, "1") != "0" and importlib.util.find_spec("numba") is not None


def usable_cores() -> int:
    """How many cores this process may use; the environment variable KEYVEIL_THREADS lowers it.

    >>> usable_cores() >= 1
    True
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, int(os.environ.get(THREADS, cores))))
