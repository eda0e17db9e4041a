"""What a large group answered, before anything pulls at it."""

from __future__ import annotations

from dataclasses import replace

from keyveil.estimate import Estimates, estimate, uncollide
from keyveil.estimate.sizes import SizeLaw, Truncation
from keyveil.mechanisms import Bucket, Levels, Mechanism, SampledIndex, SignedResponse, SubsetSelection
from keyveil.protocols.auto.answers import Answered
from keyveil.protocols.one_round import frequencies_only


def cut_by(mechanism: Mechanism, law: SizeLaw) -> Truncation:
    """How records of users with these sizes are cut; where one key is asked about, not at all."""
    asks_one = isinstance(mechanism, SampledIndex | Levels)
    return Truncation(law=law, l=mechanism.n_keys if asks_one else mechanism.pairs_per_user)


def unbiased(found: Answered) -> Estimates:
    """The estimates of a large group, by one of the mechanisms that `plan.choice` chooses among."""
    match found.round.mechanism:
        case Bucket() | SignedResponse() | SampledIndex() | Levels() as mechanism:
            raw = uncollide(mechanism, estimate(mechanism, found.tally))
        case SubsetSelection() as alone:
            # The last symbol is that of users who hold nothing.
            support = found.tally.cells["support"][: alone.n_keys]
            raw = replace(frequencies_only(alone, found.tally, support), moments=alone.moments)
        case _:
            raise found.unreadable()
    return raw.told_within(found.round.size)
