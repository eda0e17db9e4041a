"""Our own weak points, tried: averaging, poisoning, replay, reconstruction, labels; each with its bound."""

import keyveil.attack.literature  # noqa: F401  # registers what it knows
from keyveil.attack.attempt import Attempt
from keyveil.attack.averaging import averaging
from keyveil.attack.hostile import Orders, random_message, random_pair, say
from keyveil.attack.poisoning import Counted, poisoning
from keyveil.attack.reconstruction import reconstruction
from keyveil.attack.replay import replay
from keyveil.attack.segments import segments, share_inside

__all__ = [
    "Attempt",
    "Counted",
    "Orders",
    "averaging",
    "poisoning",
    "random_message",
    "random_pair",
    "reconstruction",
    "replay",
    "say",
    "segments",
    "share_inside",
]
