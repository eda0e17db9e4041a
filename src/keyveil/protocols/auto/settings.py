"""What is declared and wanted before anybody answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from keyveil.errors import ProtocolError
from keyveil.estimate.sizes import SizeLaw
from keyveil.mechanisms import Mechanism
from keyveil.mechanisms.base import check_size
from keyveil.methods import WANTS
from keyveil.numerics import parse_epsilon
from keyveil.plan import Crowd
from keyveil.protocols.auto.tuning import DITHERED_SINCE, NEWEST, PROMISED_SINCE, Tuning, tuning_of
from keyveil.rounds import Group, Round
from keyveil.shuffle import Promise
from keyveil.shuffle.promise import Made, Make

FREQUENCY, DISTRIBUTION = "frequency", "distribution"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The budget, the crowd as it is declared, the wish; all that stages share."""

    epsilon: Fraction
    n_keys: int
    users: int
    pairs_per_user: int = 1
    """How many pairs nine users in ten hold at most; 1 if nobody may hold more than one."""
    top: int = 50
    want: str = "both"
    skew: float = 1.0
    rounds: int = 0
    """1 or 2 to fix it, 0 to let the sizes decide."""
    dithered: bool = False
    """Whether a public dither rounds values to signs, which then tell distributions, too."""
    promise: Promise | None = None
    """What is promised of every answer where a relay hides it among others."""
    version: int = NEWEST
    id: ClassVar[str] = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        check_size(self.n_keys, self.pairs_per_user)
        if self.users < 1 or self.top < 1:
            raise ProtocolError(f"users and top must be at least 1, got {self.users} and {self.top}")
        wants = WANTS if self.tuning.bins else tuple(want for want in WANTS if want != DISTRIBUTION)
        if self.want not in wants:
            raise ProtocolError(f'want must be one of {", ".join(wants)}, got "{self.want}"')
        if self.rounds not in (0, 1, 2):
            raise ProtocolError(f"rounds must be 0 (as suits the sizes), 1 or 2, got {self.rounds}")
        if self.want == DISTRIBUTION and self.rounds == 2:
            raise ProtocolError("rounds must be 0 or 1 where a distribution is wanted, got 2: one tells it")

    @property
    def tuning(self) -> Tuning:
        """The numbers of this version."""
        return tuning_of(self.version)

    @property
    def kept(self) -> Promise | None:
        """The promise, where this version knows how to keep it."""
        return self.promise if self.version >= PROMISED_SINCE else None

    def allowance(self, group: Group) -> Callable[[Make[Made]], Made]:
        """Makes what a group is asked, as telling as the budget and what is promised allow."""
        if self.kept is None:
            return lambda make: make(self.epsilon)
        return self.kept.allowance(group[1] - group[0], self.epsilon)

    @property
    def asks_values(self) -> bool:
        """Whether a group tells where means lie: not where none is wanted, but by the first version."""
        if self.want == FREQUENCY:
            return not self.tuning.choosing.own_keys
        return self.want != DISTRIBUTION

    @property
    def asks_waves(self) -> bool:
        """Whether distributions are wanted and asked for as noisy values, because signs do not tell them."""
        return self.want == DISTRIBUTION and not (self.dithered and self.version >= DITHERED_SINCE)

    @property
    def holds_several(self) -> bool:
        """Whether a record may hold more than one pair."""
        return self.pairs_per_user > 1 and self.n_keys > 1

    def crowd(self, law: SizeLaw, n_keys: int) -> Crowd:
        """Who is expected to answer about so many keys, if records have these sizes."""
        return Crowd(users=self.users, n_keys=n_keys, law=law, skew=self.skew)

    def round(
        self,
        campaign: str,
        number: int,
        purpose: str,
        mechanism: Mechanism,
        group: Group,
        keys: tuple[int, ...] | None = None,
    ) -> Round:
        """A round of this version."""
        return Round(
            campaign=campaign,
            number=number,
            purpose=purpose,
            mechanism=mechanism,
            protocol=f"{self.id}/{self.version}",
            group=group,
            keys=keys,
        )
