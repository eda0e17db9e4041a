"""Plans: two of users, epsilon and error are given, the third is found; with all three, both are compared."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from keyveil.errors import PlanError
from keyveil.numerics import epsilon_above
from keyveil.plan.band import alternatives, banded
from keyveil.plan.central import MOST_HIDDEN, Central
from keyveil.plan.choice import Allowed
from keyveil.plan.crowd import Crowd
from keyveil.plan.predict import Prediction, candidates
from keyveil.shuffle.best import STEPS

# What a method of several rounds promises a crowd at an epsilon, and how far that is off where others come
# instead; predicted by a layer that knows its rounds.
Also = Callable[[float, Crowd, tuple[Crowd, ...]], Prediction]

MOST_USERS, LARGEST_EPSILON, SMALLEST_EPSILON = 10**10, 12.0, 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The choice, what else there is, and what was found or compared, in words."""

    want: str
    n_keys: int
    error: float
    wanted_error: float | None
    choice: Prediction
    candidates: tuple[Prediction, ...]
    words: tuple[str, ...]
    central: Central | None = None
    without: tuple[Prediction, ...] = ()
    """Where a central epsilon is planned for: what mechanisms say at that epsilon without a relay."""

    @property
    def is_met(self) -> bool:
        """Whether the wanted error is reached; true where none was wanted."""
        return self.wanted_error is None or self.error <= self.wanted_error * (1 + 1e-9)

    def to_fields(self) -> dict[str, Any]:
        """For JSON."""
        said: dict[str, Any] = {} if self.central is None else {"central": self._central_fields(self.central)}
        return said | {
            "want": self.want,
            "error": self.error,
            "wanted_error": self.wanted_error,
            "met": self.is_met,
            "choice": self.choice.to_fields(),
            "candidates": [candidate.to_fields() for candidate in self.candidates],
            "words": list(self.words),
        }

    def _central_fields(self, central: Central) -> dict[str, Any]:
        first, errors = self.choice, ("frequency_rmse", "mean_rmse", "share_rmse")
        hidden, plain = first.to_fields(), self.without[0].to_fields()
        return {
            **central.to_fields(first.users, first.epsilon),
            **{name: hidden[name] for name in errors},
            "without_relay": {name: plain[name] for name in ("mechanism", *errors)},
        }


def make_plan(
    crowd: Crowd,
    *,
    epsilon: float | None,
    users: int | None,
    error: float | None = None,
    want: str = "frequency",
    at: float | None = None,
    top: int = 50,
    most_bias: float = math.inf,
    also: Also | None = None,
    bands: bool = False,
    spoken: Callable[[float], str] = "{:.3g}".format,
    central: Central | None = None,
) -> Plan:
    """The plan for a crowd (whose own number of users counts only where `users` is given).

    With `central` reports are hidden by a relay, and `epsilon`, if it is said, is the largest local one.

    `most_bias` is that of `candidates`: without a bound the error alone decides how records are cut.
    `also` is one candidate more; what is solved for is solved by the others. With `bands` every prediction
    says how far it may be off where the crowd is another one. `spoken` puts an error into words.

    >>> from keyveil.estimate.sizes import SizeLaw
    >>> crowd = Crowd(users=1, n_keys=100, law=SizeLaw.exactly(1))
    >>> plan = make_plan(crowd, epsilon=1.0, users=None, error=0.002)
    >>> plan.choice.mechanism, plan.choice.options["rho"], 900_000 < plan.choice.users < 1_100_000
    ('bucket', 1, True)
    """
    if central is None and users is None and epsilon is None:
        raise PlanError("give at least users or epsilon; of users, epsilon and error one may be left out")
    if central is not None and (users or epsilon or error) is None:
        raise PlanError("give users, a local epsilon or an error beside what is promised")
    if central is None and (users is None or epsilon is None) and error is None:
        missing = "users" if users is None else "epsilon"
        raise PlanError(f"to solve for {missing}, say which error is wanted")
    if error is not None and not 0 < error < 1:
        raise PlanError(f"the wanted error must lie between 0 and 1, got {error:g}")
    if at is not None and not 0 < at <= 1:
        raise PlanError(f"a frequency lies between 0 and 1, got {at:g}")
    words: list[str] = []
    if central is not None:
        central.checked()
    if users is None and central is not None:
        users = _solve_hidden(crowd, central, epsilon, error, want, at, top)
        words.append(f"{users:,} users are enough, in batches of {central.promise(users).batch:,}")
    if users is None:
        assert epsilon is not None
        assert error is not None
        users = _solve_users(crowd, epsilon, error, want, at, top)
        words.append(f"{users:,} users are enough for an error of {spoken(error)} at epsilon {epsilon:g}")
    crowd = replace(crowd, users=users)
    asked: float | Allowed
    if central is not None:
        asked = central.allowance(users, epsilon)
    elif epsilon is None:
        assert error is not None
        epsilon = _solve_epsilon(crowd, error, want, at, top)
        words.append(f"epsilon {epsilon:g} is enough for an error of {spoken(error)} with {users:,} users")
    if central is None:
        assert epsilon is not None
        asked = epsilon
    if words and also is not None:
        words.append("that is found for methods of one round; auto is predicted at what they need")
    ranked = candidates(asked, crowd, want=want, at=at, top=top, most_bias=most_bias)
    # What auto is asked at, at most: its groups ask what is allowed them.
    if central is not None:
        epsilon = max(math.ceil(STEPS * epsilon_above(each.mechanism.loss)) / STEPS for each in ranked)
    assert epsilon is not None
    others = alternatives(crowd) if bands else ()
    predictions = [candidate.predict(crowd, at, top) for candidate in ranked]
    if bands:
        predictions = [
            banded(prediction, [each.predict(other, at, top) for other in others])
            for each, prediction in zip(ranked, predictions, strict=True)
        ]
    if also is not None:
        predictions.append(also(epsilon, crowd, others))
        predictions.sort(key=lambda each: each.error(want))
    reached = predictions[0].error(want)
    if error is not None and central is not None:
        words.append(f"predicted {spoken(reached)}, wanted {spoken(error)}")
    elif error is not None and not words:
        words.append(_compared(reached, error, crowd, epsilon, want, at, top, spoken))
    if crowd.skew and at is None and crowd.counted is None and central is None:
        words.append(_without_skew(crowd, epsilon, want, top, spoken))
    words.append(guess_in_words(predictions[0].epsilon))
    without: tuple[Prediction, ...] = ()
    if central is not None:
        plain = candidates(central.epsilon, crowd, want=want, at=at, top=top, most_bias=most_bias)
        without = tuple(each.predict(crowd, at, top) for each in plain)
        words.append(_in_relays(central, predictions[0], without[0], want, spoken))
    return Plan(
        want=want,
        n_keys=crowd.n_keys,
        error=reached,
        wanted_error=error,
        choice=predictions[0],
        candidates=tuple(predictions),
        words=tuple(words),
        central=central,
        without=without,
    )


def _in_relays(
    central: Central, first: Prediction, plain: Prediction, want: str, spoken: Callable[[float], str]
) -> str:
    """What a relay changes."""
    return (
        f"a collector that does not pool data with the relay learns at most epsilon {central.epsilon:g} of a "
        f"person, but for a chance of {central.delta:g}, if {100 * central.honest:g} % of a batch is honest; "
        f"both together learn epsilon {first.epsilon:g}; without a relay, at epsilon {central.epsilon:g}, "
        f"{plain.mechanism} has an error of {spoken(plain.error(want))}, with it {first.mechanism} has "
        f"{spoken(first.error(want))}"
    )


def _solve_hidden(
    crowd: Crowd,
    central: Central,
    epsilon: float | None,
    error: float | None,
    want: str,
    at: float | None,
    top: int,
) -> int:
    """The fewest users for an error, or for a local epsilon, at what hides among them."""
    fewest = 2 if central.batch is None else central.batch
    if epsilon is not None:
        fewest = max(fewest, central.users_for(epsilon))
    if error is None:
        return fewest

    def error_with(users: int) -> float:
        among = replace(crowd, users=max(users, fewest))
        asked = central.allowance(among.users, epsilon)
        return candidates(asked, among, want=want, at=at, top=top)[0].error(among, want, at, top)

    return max(fewest, central.fewest_users(error_with, error, MOST_HIDDEN))


def guess_in_words(epsilon: float) -> str:
    """What an observer of one report gains.

    >>> guess_in_words(1.0)
    'an observer who guesses between two records is right 50 % of the time, with the report at most 73 %'
    """
    right = 1 / (1 + math.exp(-epsilon))
    return (
        "an observer who guesses between two records is right 50 % of the time, "
        f"with the report at most {100 * right:.0f} %"
    )


def _without_skew(crowd: Crowd, epsilon: float, want: str, top: int, spoken: Callable[[float], str]) -> str:
    """What the guess about popularity changes."""
    even = replace(crowd, skew=0.0)
    first = candidates(epsilon, even, want=want, at=None, top=top)[0]
    error = first.error(even, want, None, top)
    return f"if all keys were equally popular it would be {first.label} with an error of {spoken(error)}"


def _error_at(crowd: Crowd, epsilon: float, want: str, at: float | None, top: int) -> Callable[[int], float]:
    """For any number of users the error of those candidates that suit the crowd's own number best."""
    ranked = candidates(epsilon, crowd, want=want, at=at, top=top)
    return lambda users: min(each.error(replace(crowd, users=users), want, at, top) for each in ranked)


def _solve_users(crowd: Crowd, epsilon: float, error: float, want: str, at: float | None, top: int) -> int:
    """The fewest users who reach the error.

    Padding lengths that suit many users do not suit few. What suits a number that is enough leads to
    a smaller one, until nothing suits better: then no smaller number is enough.
    """
    users, error_with = MOST_USERS, _error_at(replace(crowd, users=MOST_USERS), epsilon, want, at, top)
    floor = error_with(MOST_USERS)
    if floor > error:
        raise PlanError(
            f"no number of users reaches an error of {error:g} at epsilon {epsilon:g}: {_above(floor)} "
            f"is left even with {MOST_USERS:,}; ask for {_above(floor)} or more, or raise epsilon"
        )
    while (fewer := _fewest(error_with, error, users)) < 0.999 * users:
        users, error_with = fewer, _error_at(replace(crowd, users=fewer), epsilon, want, at, top)
    return fewer


def _fewest(error_with: Callable[[int], float], error: float, enough: int) -> int:
    """The least number of users, to three digits, whose error is small enough; at most `enough`."""
    low, high = 0, enough
    while high - low > max(1, high // 1000):
        middle = max(low + 1, round(math.sqrt(max(low, 1) * high)))
        low, high = (middle, high) if error_with(middle) > error else (low, middle)
    return high


def _solve_epsilon(crowd: Crowd, error: float, want: str, at: float | None, top: int) -> float:
    def reached(epsilon: float) -> float:
        return candidates(epsilon, crowd, want=want, at=at, top=top)[0].error(crowd, want, at, top)

    if reached(LARGEST_EPSILON) > error:
        floor = reached(LARGEST_EPSILON)
        raise PlanError(
            f"no epsilon up to {LARGEST_EPSILON:g} reaches an error of {error:g} with {crowd.users:,} users: "
            f"{_above(floor)} is left; it takes more users, or a wanted error of {_above(floor)} or more"
        )
    low, high = SMALLEST_EPSILON, LARGEST_EPSILON
    if reached(low) <= error:
        return low
    for _ in range(14):
        middle = math.sqrt(low * high)
        if reached(middle) > error:
            low = middle
        else:
            high = middle
    return math.ceil(high * 1000) / 1000


def _above(error: float) -> str:
    """Two digits that promise no less than what can be kept.

    >>> _above(0.001213), _above(0.5)
    ('0.0013', '0.5')
    """
    unit = 10.0 ** (math.floor(math.log10(error)) - 1)
    return f"{math.ceil(error / unit * (1 - 1e-12)) * unit:.2g}"


def _compared(
    reached: float,
    error: float,
    crowd: Crowd,
    epsilon: float,
    want: str,
    at: float | None,
    top: int,
    spoken: Callable[[float], str],
) -> str:
    """Users, epsilon and error were all given: predicted against wanted, and what would do."""
    asked = f"with {crowd.users:,} users at epsilon {epsilon:g}"
    summary = f"predicted {spoken(reached)}, wanted {spoken(error)} {asked}"
    if reached <= error:
        return f"{summary}: met"
    ways = []
    with suppress(PlanError):
        ways.append(f"{_solve_users(crowd, epsilon, error, want, at, top):,} users")
    with suppress(PlanError):
        ways.append(f"epsilon {_solve_epsilon(crowd, error, want, at, top):g}")
    return f"{summary}: not met; it would take {' or '.join(ways) or 'more users and a larger epsilon'}"
