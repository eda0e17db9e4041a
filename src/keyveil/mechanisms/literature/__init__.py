"""From the literature: mechanisms of the papers that we compare with, kept as they were published.

PrivKV and the later rounds of PrivKVM (`privkv`, `broadcast`), PrivKVM* (`privkvm_star`,
`boundary_bits`), and the baselines that perturb keys and values apart (`apart`, with `harmony` for the
sign). They can be collected, simulated and reproduced like any other. Nothing outside this room, its
counterparts of the same name in other packages and the `registry` is shaped by them.
"""

import keyveil.mechanisms.literature.integers  # noqa: F401  # registers what it describes
from keyveil.mechanisms.literature.apart import Apart, KrrHarmony, OueHarmony, RapporHarmony
from keyveil.mechanisms.literature.boundary_bits import IndexedBoundaryBits
from keyveil.mechanisms.literature.broadcast import BroadcastIndex
from keyveil.mechanisms.literature.harmony import Harmony
from keyveil.mechanisms.literature.privkv import PrivKv, PrivKvSplit
from keyveil.mechanisms.literature.privkvm_star import PrivKvmStarBoundary

__all__ = [
    "Apart",
    "BroadcastIndex",
    "Harmony",
    "IndexedBoundaryBits",
    "KrrHarmony",
    "OueHarmony",
    "PrivKv",
    "PrivKvSplit",
    "PrivKvmStarBoundary",
    "RapporHarmony",
]
