"""Plans of searches: what is solved for is enough, and little more than it takes."""

import pytest

from keyveil.errors import PlanError
from keyveil.plan.popularity import beside, fewest_users, least_epsilon
from keyveil.plan.searching import Search

ASKED = {"longest": 48, "pairs_per_user": 3}


@pytest.mark.parametrize("popularity", [0.3, 0.02, 0.002])
def test_users_are_enough_and_a_tenth_fewer_are_too_few(popularity):
    found = fewest_users(popularity, epsilon=3, **ASKED)
    assert found.detectable() <= popularity
    assert Search.of(epsilon=3, users=round(0.9 * found.users), **ASKED).detectable() > popularity


@pytest.mark.parametrize("popularity", [0.3, 0.02])
def test_an_epsilon_is_enough_and_a_tenth_less_is_too_little(popularity):
    found = least_epsilon(popularity, users=200_000, **ASKED)
    assert found.detectable() <= popularity
    assert Search.of(epsilon=found.epsilon * 9 / 10, users=200_000, **ASKED).detectable() > popularity


def test_what_nothing_finds_is_refused_with_the_least_that_is_found():
    with pytest.raises(PlanError, match=r"no epsilon up to 12 .* the least is .* more users"):
        least_epsilon(0.001, users=10_000, **ASKED)
    with pytest.raises(PlanError, match="nothing would be found"):
        least_epsilon(0.001, users=10, **ASKED)
    with pytest.raises(PlanError, match="raise epsilon"):
        fewest_users(1e-6, epsilon="0.1", **ASKED)
    for popularity in (0, -0.1, 1.5, float("nan")):
        with pytest.raises(PlanError, match="a popularity is a share"):
            fewest_users(popularity, epsilon=3, **ASKED)


def test_more_users_and_more_epsilon_find_rarer_keys():
    search = Search.of(epsilon=3, users=200_000, **ASKED)
    found = [each.detectable() for each in beside(search)]
    assert found[1] < search.detectable() < found[0]
    assert found[3] < search.detectable() < found[2]
    assert search.error(0.5) > search.error(0.01) > 0
