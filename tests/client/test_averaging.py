"""A year of daily questions: fresh noise is averaged away, one vote is not."""

import math

import numpy as np
import pytest

from keyveil import Campaign
from keyveil.client import Reporter
from keyveil.report import HEADER_BYTES

# Randomized response: the mechanism whose single report tells most.
QUESTION = Campaign(
    name="averaging", epsilon=1.0, keys=("it",), value_range=(0, 1), pairs_per_user=1, mechanism="grr"
)
HELD = ({}, {"it": 1.0})


def says_yes(report):
    return report[HEADER_BYTES] == 0


@pytest.mark.statistical
def test_thirty_fresh_answers_give_everybody_away():
    reporter, people, days = Reporter(QUESTION), 4000, 30
    votes = np.array(
        [sum(says_yes(reporter.report(HELD[person % 2])) for _ in range(days)) for person in range(people)]
    )
    right = np.where(2 * votes == days, 0.5, (2 * votes > days) == (np.arange(people) % 2 == 1)).mean()
    truth = 0.9955  # of the binomial law at p = e / (1 + e), n = 30, ties guessed
    error = math.sqrt(truth * (1 - truth) / people)
    assert right > 0.99, f"n {people}, right {right:.4f}, expected {truth}, standard error {error:.5f}"


@pytest.mark.statistical
def test_one_vote_stays_at_its_bound_for_a_year(tmp_path):
    """Real ledgers show that the answer never changes, though what is held changes every day (P3)."""
    for device in range(2):
        path = tmp_path / f"{device}.db"
        said = {Reporter(QUESTION, ledger=path).report(HELD[(device + day) % 2]) for day in range(365)}
        assert len(said) == 1
        assert Reporter(QUESTION, ledger=path).status().epsilon_lifetime <= 1.0
    reporter, people = Reporter(QUESTION), 200_000
    right = sum(says_yes(reporter.report(HELD[person % 2])) == bool(person % 2) for person in range(people))
    bound = math.e / (1 + math.e)
    error = math.sqrt(bound * (1 - bound) / people)
    # Five standard errors are 0.5 %: this draws from the operating system and must not flake.
    assert abs(right / people - bound) < 5 * error < 0.005, f"right {right / people:.4f}, bound {bound:.4f}"
