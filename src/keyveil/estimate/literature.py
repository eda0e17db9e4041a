"""How far one report pulls at the estimates of mechanisms from the literature.

Each function is registered with the table that its name belongs to.
"""

from __future__ import annotations

from keyveil.errors import MechanismError
from keyveil.estimate.influence import DOWN, SILENT, UP, Lever, lever, share_lever
from keyveil.mechanisms.literature import Apart, BroadcastIndex, IndexedBoundaryBits


@lever.register
def _(mechanism: Apart) -> Lever:
    own = share_lever(mechanism)
    return Lever(
        weight=own.weight,
        floor=own.floor,
        signed=mechanism.heard_mean(1.0, 0.0),
        says=(SILENT, UP, DOWN),
    )


@lever.register
def _(mechanism: BroadcastIndex) -> Lever:
    if mechanism.a == mechanism.b:
        raise MechanismError("a later round of privkvm asks for signs alone; its frequencies are round 1's")
    return share_lever(mechanism, 1 / mechanism.n_keys)


@lever.register
def _(mechanism: IndexedBoundaryBits) -> Lever:
    return share_lever(mechanism, 1 / mechanism.n_keys)
