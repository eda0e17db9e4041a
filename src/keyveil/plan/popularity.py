"""Which users, or which epsilon, it takes to find keys of a popularity that nobody listed.

A search by itself says what it finds (`plan.searching`); here that is turned round by halving. What is found
falls as users and epsilon grow, but for steps of a few parts in a hundred where a level keeps twice as many
prefixes, or a level more is needed: so what is returned is enough, and a little less may be, too.
"""

from __future__ import annotations

import math
from fractions import Fraction

from keyveil.errors import PlanError
from keyveil.plan.searching import Search
from keyveil.plan.solve import LARGEST_EPSILON, MOST_USERS

# Epsilons are tried in hundredths.
_STEPS = 100


def fewest_users(popularity: float, *, epsilon: object, longest: int, pairs_per_user: int) -> Search:
    """The search with as few users as find keys of this popularity, to three digits.

    >>> fewest_users(0.01, epsilon=4, longest=96, pairs_per_user=5).users
    1536467
    """

    def searched(users: int) -> Search:
        return Search.of(epsilon=epsilon, longest=longest, pairs_per_user=pairs_per_user, users=users)

    check_popularity(popularity)
    low, high = 0, MOST_USERS
    if (least := searched(high).detectable()) > popularity:
        raise PlanError(
            f"no number of users up to {high:,} finds keys that {100 * popularity:.3g} % of them hold; "
            f"the least is {100 * least:.2g} %; raise epsilon"
        )
    while high - low > max(1, high // 1000):
        middle = max(low + 1, round(math.sqrt(max(low, 1) * high)))
        low, high = (middle, high) if searched(middle).detectable() > popularity else (low, middle)
    return searched(high)


def least_epsilon(popularity: float, *, users: int, longest: int, pairs_per_user: int) -> Search:
    """The search at the least epsilon, in hundredths, that finds keys of this popularity.

    >>> float(least_epsilon(0.01, users=1_000_000, longest=96, pairs_per_user=5).epsilon)
    4.3
    """

    def searched(hundredths: int) -> Search:
        epsilon = Fraction(hundredths, _STEPS)
        return Search.of(epsilon=epsilon, longest=longest, pairs_per_user=pairs_per_user, users=users)

    check_popularity(popularity)
    low, high = 0, round(_STEPS * LARGEST_EPSILON)
    if (least := searched(high).detectable()) > popularity:
        says = f"the least is {100 * least:.2g} %" if least <= 1 else "nothing would be found"
        raise PlanError(
            f"no epsilon up to {LARGEST_EPSILON:g} finds keys that {100 * popularity:.3g} % of {users:,} "
            f"users hold; {says}; it takes more users"
        )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if searched(middle).detectable() > popularity else (low, middle)
    return searched(high)


def beside(search: Search) -> list[Search]:
    """The same with half and twice the epsilon, and with a tenth of the users and ten times as many.

    >>> search = Search.of(epsilon=8, longest=96, pairs_per_user=5, users=1_000_000)
    >>> [(each.users, float(each.epsilon)) for each in beside(search)]
    [(1000000, 4.0), (1000000, 12.0), (100000, 8.0), (10000000, 8.0)]
    """
    epsilon, users = search.epsilon, search.users
    largest = max(epsilon, Fraction(LARGEST_EPSILON))
    pairs = (
        *((each, users) for each in (epsilon / 2, min(2 * epsilon, largest))),
        *((epsilon, each) for each in (users // 10, 10 * users)),
    )
    return [
        Search.of(epsilon=each, longest=search.longest, pairs_per_user=search.pairs_per_user, users=among)
        for each, among in pairs
        if among and (each, among) != (epsilon, users)
    ]


def check_popularity(popularity: float) -> None:
    """Refuse what is no share of users."""
    if not 0 < popularity <= 1:
        raise PlanError(f"a popularity is a share of users above 0 and up to 1, got {popularity:g}")
