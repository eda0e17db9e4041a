"""What is foreseen of `auto` and of mechanisms of one round comes true; of other people it does not."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from keyveil.errors import MechanismError
from keyveil.estimate import estimate
from keyveil.mechanisms import build
from keyveil.mechanisms.base import is_key_value
from keyveil.plan import Crowd, alternatives, even_sizes
from keyveil.protocols import build_protocol
from keyveil.simulate import insecure_generator, play
from keyveil.simulate.forecast import draw_cells, forecast, forecast_among, play_strata
from keyveil.simulate.foresight import counted_crowd, foresee, simulated
from keyveil.simulate.zoo import ZOO, make
from keyveil.tally import Tally

LOW, HIGH = 0.8, 1.25


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "epsilon"), [("clusters", 4.0), ("tiny", 1.0), ("niche", 4.0)])
def test_what_is_foreseen_comes_true(name, epsilon):
    people = make(name, users=5000, seed=2)
    for told in foresee(name, people, epsilon, runs=6, seed=3):
        missed = [what for what in told.misses(LOW, HIGH) if not what.endswith("band")]
        assert not missed, f"{name}: {told.mechanism} {told.frequency_ratio:.2f} {told.mean_ratio:.2f}"


@pytest.mark.statistical
def test_what_is_foreseen_of_others_does_not_come_true():
    """The wrong twin: a plan for a quarter of the people, or for keys that are equally popular."""
    people = make("clusters", users=5000, seed=2)
    crowd = counted_crowd(people)
    protocol = build_protocol("auto", 4.0, n_keys=people.n_keys, pairs_per_user=6, users=5000)
    found, _ = simulated(protocol, people, runs=6, published=True)
    right = forecast(4.0, crowd, pairs_per_user=6).frequency_rmse
    assert LOW < right / found.rmse < HIGH
    fewer = forecast(4.0, replace(crowd, users=1250), pairs_per_user=6).frequency_rmse
    even = forecast(4.0, replace(crowd, counted=None, skew=0.0), pairs_per_user=6).frequency_rmse
    assert fewer / found.rmse > HIGH
    assert even / found.rmse < LOW
    (first, *_) = foresee("clusters", people, 4.0, runs=3)
    assert "frequency" in replace(first, frequency_ratio=2.0).misses(LOW, HIGH)
    assert "mean_band" in replace(first, mean_low=10.0, mean_high=11.0).misses(LOW, HIGH)


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["bucket", "pckv-grr", "pckv-ue", "kvue", "levels"])
def test_cells_are_read_as_numbers_with_the_moments_of_the_mechanism(name):
    people = make("tiny", users=3000, seed=1)
    strata = counted_crowd(people).keys(people.n_keys)
    mechanism = build(name, 2, n_keys=people.n_keys, pairs_per_user=2)
    assert is_key_value(mechanism)
    off, rng = [], insecure_generator(4)
    for _ in range(150):
        cells = draw_cells(mechanism, strata, 3000, 1.0, rng)
        raw = estimate(mechanism, Tally.of(question="q", n_reports=3000, **cells))
        off.append(raw.frequency)
    kept = strata.kept(mechanism.n_keys if mechanism.moments.drawn else 2).share
    error = np.std(off, axis=0) / np.sqrt(150)
    assert np.abs((np.mean(off, axis=0) - kept) / error).max() < 5
    asked = mechanism.expected_asked(3000)
    expected = np.sqrt(mechanism.moments.covariance(kept, 0.0, asked).frequency)
    assert np.std(off, axis=0).mean() == pytest.approx(expected.mean(), rel=0.05)


def test_the_rounds_of_a_forecast_are_the_rounds_of_the_protocol():
    people = make("long", users=20_000, seed=1)
    protocol = build_protocol("auto", 2.0, n_keys=1000, pairs_per_user=people.typical_size(), users=20_000)
    played = play_strata(protocol, counted_crowd(people).keys(1000), 20_000, insecure_generator(1))
    assert [each.purpose for each in played.rounds][:2] == ["sizes", "values"]
    assert "measure" in {each.purpose for each in played.rounds}
    real = play(protocol, people, insecure_generator(1))
    assert played.outcome.rounds == real.rounds
    assert played.outcome.published.frequency.size == 1000


def test_forecasts_repeat_themselves_and_shrink_with_users():
    crowd = Crowd(users=20_000, n_keys=80, law=even_sizes(4))
    first, again = (forecast(1.0, crowd) for _ in range(2))
    assert first == again
    assert forecast(1.0, replace(crowd, users=10**9)).frequency_rmse < first.frequency_rmse / 10
    assert first.pairs_per_user == 4
    banded = forecast_among(1.0, crowd, alternatives(crowd), pairs_per_user=4)
    assert banded.frequency_low < first.frequency_rmse < banded.frequency_high
    assert np.isnan(forecast_among(1.0, crowd, ()).frequency_low)


def test_what_tells_no_signed_keys_has_no_forecast():
    crowd = Crowd(users=100, n_keys=5, law=even_sizes(1))
    with pytest.raises(MechanismError, match="no forecast for UeSw"):
        draw_cells(build("ue-sw", 1, n_keys=5), crowd.keys(5), 100, 1.0, insecure_generator(1))


def test_the_committed_results_cover_the_zoo_and_mark_what_misses():
    text = (Path(__file__).parents[2] / "bench" / "results" / "plan.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    cells = {(row["population"], float(row["epsilon"])) for row in rows if row["mechanism"] == "auto"}
    assert cells == {(name, epsilon) for name in ZOO for epsilon in (0.5, 1.0, 2.0, 4.0)}
    for row in rows:
        for what in ("frequency", "mean"):
            ratio, part = float(row[f"{what}_ratio"]), float(row[f"{what}_ratio_se"])
            off = ratio * (1 + 2 * part) < LOW or ratio / (1 + 2 * part) > HIGH
            assert off == (what in row["missed"].split()), row
