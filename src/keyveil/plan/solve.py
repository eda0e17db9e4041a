"""Plans: two of users, epsilon and error are given, the third is found; with all three, both are compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from keyveil.errors import PlanError
from keyveil.numerics import epsilon_above
from keyveil.plan.band import alternatives, banded
from keyveil.plan.central import MOST_HIDDEN, Central
from keyveil.plan.choice import Allowed
from keyveil.plan.crowd import Crowd
from keyveil.plan.predict import Candidate, Prediction, candidates
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """What is to be known best, of which keys, and how an error of it is put into words."""

    want: str
    at: float | None
    top: int
    spoken: Callable[[float], str]

    def ranked(self, asked: float | Allowed, crowd: Crowd, most_bias: float = math.inf) -> list[Candidate]:
        """The mechanisms that suit the crowd, the best first."""
        return candidates(asked, crowd, want=self.want, at=self.at, top=self.top, most_bias=most_bias)

    def predictions(self, ranked: Sequence[Candidate], crowd: Crowd) -> list[Prediction]:
        """What each of them will say of the crowd."""
        return [each.predict(crowd, self.at, self.top) for each in ranked]

    def error(self, candidate: Candidate, crowd: Crowd) -> float:
        """What is left of the error with one of them."""
        return candidate.error(crowd, self.want, self.at, self.top)

    def least_error(self, asked: float | Allowed, crowd: Crowd) -> float:
        """What is left of it with the best."""
        return self.error(self.ranked(asked, crowd)[0], crowd)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """How many are asked, and at which epsilon: what was given, and what was found for the rest, in words."""

    users: int
    asked: float | Allowed
    """Behind a relay what each mechanism is allowed."""
    found: tuple[str, ...]


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
    _check_given(epsilon, users, error, at, central)
    wish = _Wish(want=want, at=at, top=top, spoken=spoken)
    if central is None:
        question = _solve(wish, crowd, epsilon, users, error)
    else:
        question = _solve_behind_relay(wish, crowd, central, epsilon, users, error)
    crowd, words = replace(crowd, users=question.users), list(question.found)
    if words and also is not None:
        words.append("that is found for methods of one round; auto is predicted at what they need")
    ranked = wish.ranked(question.asked, crowd, most_bias)
    # Behind a relay auto is asked at most at this: its groups ask what is allowed them.
    budget = _largest_asked(ranked) if callable(question.asked) else question.asked
    predictions = _predict(wish, ranked, crowd, budget, also, alternatives(crowd) if bands else ())
    first = predictions[0]
    reached = first.error(want)
    without: tuple[Prediction, ...] = ()
    if central is not None:
        without = tuple(wish.predictions(wish.ranked(central.epsilon, crowd, most_bias), crowd))
        if error is not None:
            words.append(f"predicted {spoken(reached)}, wanted {spoken(error)}")
        words += [guess_in_words(first.epsilon), _in_relays(central, first, without[0], wish)]
    else:
        if error is not None and not words:
            words.append(_compared(wish, reached, error, crowd, budget))
        if crowd.skew and at is None and crowd.counted is None:
            words.append(_without_skew(wish, crowd, budget))
        words.append(guess_in_words(first.epsilon))
    return Plan(
        want=want,
        n_keys=crowd.n_keys,
        error=reached,
        wanted_error=error,
        choice=first,
        candidates=tuple(predictions),
        words=tuple(words),
        central=central,
        without=without,
    )


def _check_given(
    epsilon: float | None, users: int | None, error: float | None, at: float | None, central: Central | None
) -> None:
    """Refuse what leaves too much open, and numbers that are none."""
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


def _solve(
    wish: _Wish, crowd: Crowd, epsilon: float | None, users: int | None, error: float | None
) -> _Question:
    """Users or epsilon, whichever was left out."""
    found: tuple[str, ...] = ()
    if users is None:
        assert epsilon is not None
        assert error is not None
        users = _solve_users(wish, crowd, epsilon, error)
        found = (f"{users:,} users are enough for an error of {wish.spoken(error)} at epsilon {epsilon:g}",)
    elif epsilon is None:
        assert error is not None
        epsilon = _solve_epsilon(wish, replace(crowd, users=users), error)
        found = (f"epsilon {epsilon:g} is enough for an error of {wish.spoken(error)} with {users:,} users",)
    return _Question(users=users, asked=epsilon, found=found)


def _solve_behind_relay(
    wish: _Wish,
    crowd: Crowd,
    central: Central,
    epsilon: float | None,
    users: int | None,
    error: float | None,
) -> _Question:
    """Users, where they were left out, and the local epsilon that so many hide."""
    central.checked()
    found: tuple[str, ...] = ()
    if users is None:
        users = _solve_hidden(wish, crowd, central, epsilon, error)
        found = (f"{users:,} users are enough, in batches of {central.promise(users).batch:,}",)
    return _Question(users=users, asked=central.allowance(users, epsilon), found=found)


def _largest_asked(ranked: Sequence[Candidate]) -> float:
    return max(math.ceil(STEPS * epsilon_above(each.mechanism.loss)) / STEPS for each in ranked)


def _predict(
    wish: _Wish,
    ranked: Sequence[Candidate],
    crowd: Crowd,
    epsilon: float,
    also: Also | None,
    others: tuple[Crowd, ...],
) -> list[Prediction]:
    """What each says of the crowd, banded by what it would say of others; the best first."""
    predictions = wish.predictions(ranked, crowd)
    if others:
        predictions = [
            banded(prediction, [each.predict(other, wish.at, wish.top) for other in others])
            for each, prediction in zip(ranked, predictions, strict=True)
        ]
    if also is not None:
        predictions.append(also(epsilon, crowd, others))
        predictions.sort(key=lambda each: each.error(wish.want))
    return predictions


def _in_relays(central: Central, first: Prediction, plain: Prediction, wish: _Wish) -> str:
    """What a relay changes."""
    spoken, want = wish.spoken, wish.want
    return (
        f"a collector that does not pool data with the relay learns at most epsilon {central.epsilon:g} of a "
        f"person, but for a chance of {central.delta:g}, if {100 * central.honest:g} % of a batch is honest; "
        f"both together learn epsilon {first.epsilon:g}; without a relay, at epsilon {central.epsilon:g}, "
        f"{plain.mechanism} has an error of {spoken(plain.error(want))}, with it {first.mechanism} has "
        f"{spoken(first.error(want))}"
    )


def _solve_hidden(
    wish: _Wish, crowd: Crowd, central: Central, epsilon: float | None, error: float | None
) -> int:
    """The fewest users for an error, or for a local epsilon, at what hides among them."""
    fewest = 2 if central.batch is None else central.batch
    if epsilon is not None:
        fewest = max(fewest, central.users_for(epsilon))
    if error is None:
        return fewest

    def error_with(users: int) -> float:
        among = replace(crowd, users=max(users, fewest))
        return wish.least_error(central.allowance(among.users, epsilon), among)

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


def _without_skew(wish: _Wish, crowd: Crowd, epsilon: float) -> str:
    """What the guess about popularity changes."""
    even = replace(crowd, skew=0.0)
    first = wish.ranked(epsilon, even)[0]
    error = wish.spoken(wish.error(first, even))
    return f"if all keys were equally popular it would be {first.label} with an error of {error}"


def _error_at(wish: _Wish, crowd: Crowd, epsilon: float) -> Callable[[int], float]:
    """For any number of users the error of those candidates that suit the crowd's own number best."""
    ranked = wish.ranked(epsilon, crowd)
    return lambda users: min(wish.error(each, replace(crowd, users=users)) for each in ranked)


def _solve_users(wish: _Wish, crowd: Crowd, epsilon: float, error: float) -> int:
    """The fewest users who reach the error.

    Padding lengths that suit many users do not suit few. What suits a number that is enough leads to
    a smaller one, until nothing suits better: then no smaller number is enough.
    """
    users, error_with = MOST_USERS, _error_at(wish, replace(crowd, users=MOST_USERS), epsilon)
    floor = error_with(MOST_USERS)
    if floor > error:
        raise PlanError(
            f"no number of users reaches an error of {error:g} at epsilon {epsilon:g}: {_above(floor)} "
            f"is left even with {MOST_USERS:,}; ask for {_above(floor)} or more, or raise epsilon"
        )
    while (fewer := _fewest(error_with, error, users)) < 0.999 * users:
        users, error_with = fewer, _error_at(wish, replace(crowd, users=fewer), epsilon)
    return fewer


def _fewest(error_with: Callable[[int], float], error: float, enough: int) -> int:
    """The least number of users, to three digits, whose error is small enough; at most `enough`."""
    low, high = 0, enough
    while high - low > max(1, high // 1000):
        middle = max(low + 1, round(math.sqrt(max(low, 1) * high)))
        low, high = (middle, high) if error_with(middle) > error else (low, middle)
    return high


def _solve_epsilon(wish: _Wish, crowd: Crowd, error: float) -> float:
    def reached(epsilon: float) -> float:
        return wish.least_error(epsilon, crowd)

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


def _compared(wish: _Wish, reached: float, error: float, crowd: Crowd, epsilon: float) -> str:
    """Users, epsilon and error were all given: predicted against wanted, and what would do."""
    asked = f"with {crowd.users:,} users at epsilon {epsilon:g}"
    summary = f"predicted {wish.spoken(reached)}, wanted {wish.spoken(error)} {asked}"
    if reached <= error:
        return f"{summary}: met"
    ways = []
    with suppress(PlanError):
        ways.append(f"{_solve_users(wish, crowd, epsilon, error):,} users")
    with suppress(PlanError):
        ways.append(f"epsilon {_solve_epsilon(wish, crowd, error):g}")
    return f"{summary}: not met; it would take {' or '.join(ways) or 'more users and a larger epsilon'}"
