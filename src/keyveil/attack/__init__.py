"""Our own weak points, tried: averaging, poisoning, replay, reconstruction; each against its bound."""

from keyveil.attack.attempt import Attempt
from keyveil.attack.hostile import Orders, random_message, random_pair, say
from keyveil.attack.poisoning import poisoning

__all__ = ["Attempt", "Orders", "poisoning", "random_message", "random_pair", "say"]
