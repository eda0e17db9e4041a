"""Whether loops are compiled here.

Hot loops are written twice: as numpy, which is always there, and as a loop that numba compiles when it
is installed (the extra `fast`). Both give the same results, to the last bit where they count or draw.
Loops live in modules called `loops`, imported when there is enough to do: `import keyveil` never waits
for a compiler, nor does a command that counts a thousand reports. Compiled code is cached on disk.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from functools import cache

SWITCH, THREADS = "KEYVEIL_COMPILED", "KEYVEIL_THREADS"

# Elementary steps of numpy, about a nanosecond each, that take as long as starting the compiler.
_WORTH_A_COMPILER = 500_000_000
_done = 0


def is_compiled(steps: int) -> bool:
    """Whether to run a loop of so many steps compiled: numba is here, and has started or is worth starting.

    Steps add up over calls. With KEYVEIL_COMPILED=0 in the environment it is always numpy.

    >>> is_compiled(0) in (True, False)
    True
    """
    global _done
    if not has_compiler():
        return False
    _done += steps
    return "numba" in sys.modules or _done >= _WORTH_A_COMPILER


def is_compiled_alike(steps: int) -> bool:
    """The same for loops whose results differ in the last bit: decided by these steps alone.

    What a process did before must not change a number.
    """
    return has_compiler() and steps >= _WORTH_A_COMPILER


@cache
def has_compiler() -> bool:
    """Whether numba is installed, and the environment does not forbid it."""
    return os.environ.get(SWITCH, "1") != "0" and importlib.util.find_spec("numba") is not None


def usable_cores() -> int:
    """How many cores this process may use; the environment variable KEYVEIL_THREADS lowers it.

    >>> usable_cores() >= 1
    True
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, int(os.environ.get(THREADS, cores))))
