"""A simulated series: devices of the panel alone; a step that is there is found, and no other is."""

from fractions import Fraction

import numpy as np
import pytest

from keyveil import Campaign
from keyveil.errors import CampaignError
from keyveil.series import Series
from keyveil.simulate import Population, insecure_generator, play_series
from keyveil.simulate.series import in_panel


def crowd(share, users=40_000):
    """Of whom this share holds the first of three keys, and half the second."""
    held = np.zeros((users, 3), dtype=bool)
    held[: int(share * users), 0] = held[::2, 1] = True
    codes = np.nonzero(held)[1].astype(np.int64)
    return Population(
        names=["chess", "maps", "mail"],
        offsets=np.concatenate([[0], held.sum(axis=1).cumsum()]).astype(np.int64),
        codes=codes,
        values=np.zeros(codes.size),
    )


def asked(answers=1, mechanism="kvue", waves=8):
    return Campaign(
        name="apps",
        epsilon=4.0,
        keys=("chess", "maps", "mail"),
        value_range=(-1, 1),
        pairs_per_user=2,
        mechanism=mechanism,
        series=Series(every="week", waves=waves, answers=answers, start="2026-11-23"),
    )


@pytest.mark.parametrize(("waves", "answers"), [(7, 1), (9, 2), (12, 5), (4, 4)])
def test_panels_of_many_are_the_panels_of_each(waves, answers):
    places = np.arange(240) / 240 + 1e-9
    series = Series(every="day", waves=waves, answers=answers, start="2026-11-23")
    own = [series.panel(Fraction(place)) for place in places]
    for number in range(1, waves + 1):
        wave = Series(every="day", waves=waves, answers=answers, start="2026-11-23", wave=number)
        assert in_panel(wave, places).tolist() == [number in panel for panel in own]


@pytest.mark.parametrize("mechanism", ["kvue", "auto"])
def test_a_step_is_dated_and_nothing_else_is(mechanism):
    levels = [0.2] * 4 + [0.4] * 4
    found = play_series(asked(mechanism=mechanism), [crowd(each) for each in levels], insecure_generator(5))
    [step] = found.metadata["steps"]
    assert (step["key"], step["after"]) == ("chess", 4)
    assert step["low"] < 0.2 < step["high"]
    # `auto` counts those of its largest group alone.
    counts = {row["reports"] for row in found.rows()}
    near = 5 * np.sqrt(5000 * 7 / 8)
    assert all(abs(count - 5000) < near for count in counts) or (mechanism == "auto" and max(counts) < 5000)


def test_a_series_that_stays_has_no_step():
    found = play_series(asked(), [crowd(0.3), None, *[crowd(0.3)] * 6], insecure_generator(6))
    assert found.metadata["steps"] == []
    assert found.metadata["notes"] == ["wave 2: nobody was there"]


def test_more_waves_than_there_are_is_refused():
    with pytest.raises(CampaignError, match=r"\$\.series"):
        play_series(asked(waves=2), [crowd(0.3, 100)] * 3, insecure_generator(1))
