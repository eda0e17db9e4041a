"""The Python behind the pages: leverage, ranks, labels, plans, files."""

import gzip
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from collecting import make_question
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keyveil.collector.service import read_campaign
from keyveil.dashboard.assets import HEADERS, answer, assets
from keyveil.dashboard.hostile import leverage
from keyveil.dashboard.planning import MOST_KEYS, MOST_PAIRS, Question
from keyveil.dashboard.planning import _crowd as crowd_of
from keyveil.dashboard.planning import answer as planned
from keyveil.dashboard.precision import noise_per_report
from keyveil.dashboard.privacy import promise
from keyveil.dashboard.results import make_results, pack
from keyveil.errors import PlanError
from keyveil.estimate import estimate
from keyveil.estimate.intervals import _ranges_by_pairs, rank_ranges
from keyveil.mechanisms import build
from keyveil.plan import candidates
from keyveil.simulate import draw_tally, insecure_generator, synthetic
from keyveil.tally import Tally

SIGNED = ("pckv-ue", "pckv-grr", "ks-ue", "kvue", "privkv", "bucket")


@pytest.mark.parametrize("name", SIGNED)
def test_no_report_moves_an_estimate_further_than_its_leverage(name):
    """Every answer that a device could send, one at a time, against the points."""
    mechanism = build(name, 2, n_keys=4, pairs_per_user=2, **({"cohorts": 64} if name == "bucket" else {}))
    points = leverage(mechanism).points
    low, high = min(w for w, _ in points), max(w for w, _ in points)
    seen = []
    answers = mechanism.answers() if name != "bucket" else range(64 * mechanism.buckets)
    for said in answers:
        ticks = [cell for cell, place in mechanism.ticks(said) if place and place[0] == 0]
        if name == "bucket":
            plus, minus = heard_by_bucket(mechanism, said)
        else:
            plus, minus = ticks.count("plus"), ticks.count("minus")
        seen.append(float(mechanism.debias(float(plus), float(minus), 1.0)[0]))
    assert low - 1e-9 <= min(seen)
    assert max(seen) <= high + 1e-9
    assert max(seen) == pytest.approx(high)


def heard_by_bucket(mechanism, said):
    """For which signs of key 0 a bucket speaks."""
    from keyveil.tally import count

    tally = count(mechanism, [mechanism.layout.encode(said)], question="q")
    return int(tally.plus[0]), int(tally.minus[0])


def test_a_hundredth_of_liars_moves_the_estimate_as_far_as_is_said():
    mechanism = build("pckv-ue", 1, n_keys=3, pairs_per_user=2)
    found = leverage(mechanism)
    n, liars = 100_000, 1_000
    honest = n - liars
    a, b, f = float(mechanism.a), float(mechanism.b), 0.3
    heard = b + (a - b) * f / 2
    expected = Tally.of(
        question="q",
        n_reports=n,
        plus=[round(honest * heard / 2 + liars)] * 3,
        minus=[round(honest * heard / 2)] * 3,
        asked=[n] * 3,
    )
    _, high = found.frequency(np.array([f]), liars / n)
    assert estimate(mechanism, expected).frequency[0] == pytest.approx(high[0], abs=3e-4)


@pytest.mark.parametrize("name", ["pckv-ue", "pckv-grr", "ks-ue", "bucket", "kvue"])
def test_ranks_by_halving_are_those_of_all_pairs(name):
    people = synthetic(users=20_000, keys=60, seed=3)
    mechanism = build(name, 3, n_keys=60)
    raw = estimate(mechanism, draw_tally(mechanism, people, insecure_generator(4)))
    for moments in (mechanism.moments, None):
        quick, slow = rank_ranges(raw, moments), _ranges_by_pairs(raw, moments, 0.95)
        assert (quick.best == slow.best).all()
        assert (quick.worst == slow.worst).all()
        assert (quick.best <= quick.worst).all()


def test_results_are_the_release_number_for_number():
    campaign = make_question(pairs_per_user=1, epsilon=3.0)
    tally = campaign.tally([])
    people = synthetic(users=5_000, keys=40, seed=1)
    tally = replace(draw_tally(campaign.build(), people, insecure_generator(2)), question=f"{campaign.id}/1")
    for post in ("none", "clip", "shrink"):
        shown = json.loads(gzip.decompress(pack(make_results(campaign, [tally], post=post, is_open=True))))
        rows = campaign.estimate(tally, post=post).rows()
        for name, column in shown["columns"].items():
            assert column == [row[name] for row in rows], name
        assert [row["frequency_low"] for row in rows] == [
            raw - shown["z"] * error
            for raw, error in zip(
                shown["columns"].get("frequency_raw", shown["columns"]["frequency"]),
                shown["columns"]["frequency_se"],
                strict=True,
            )
        ]


def test_results_without_reports_claim_nothing():
    campaign = make_question()
    shown = make_results(campaign, [campaign.tally([])], post="none", is_open=True)
    assert shown.rank_best == [1] * 40
    assert shown.rank_worst == [40] * 40
    assert shown.metadata["users"] == 0


def test_the_label_is_exact_and_names_a_pair():
    label = promise(make_question("pckv-grr"))
    ratio = Fraction(int(label.ratio[0]), int(label.ratio[1]))
    assert label.is_sound
    assert float(ratio) == pytest.approx(np.exp(label.epsilon_exact))
    assert label.epsilon_exact <= label.epsilon_promised
    assert label.worst_pair.first
    assert label.worst_pair.first != label.worst_pair.second
    assert label.guess_after == "73 %"
    several = promise(make_question("privkvm", rounds=3))
    assert len(several.rounds) == 3
    assert several.epsilon_exact <= 1.0


@pytest.mark.parametrize("solve", ["users", "keys", "epsilon", "pairs_per_user", "error"])
def test_any_one_of_five_is_solved_for(solve):
    asked = Question(users=50_000, keys=200, epsilon=1.0, pairs_per_user=3, error=0.02)
    found = planned(replace_solve(asked, solve))
    assert found.plan["error"] <= 0.02 * 1.001 or solve == "error"
    again = planned(
        Question(
            solve="error",
            users=int(found.solved["users"]),
            keys=int(found.solved["keys"]),
            epsilon=found.solved["epsilon"],
            pairs_per_user=int(found.solved["pairs_per_user"]),
        )
    )
    assert again.plan["error"] == pytest.approx(found.plan["error"], rel=1e-6)
    assert len(found.users) == len(found.curves[0].errors)


def check_drafts(asked):
    """Every campaign that a plan offers parses, and is asked by the very mechanism that was ranked."""
    found = planned(asked)
    ranked = candidates(asked.epsilon, crowd_of(asked), want=asked.want, at=None)
    rest = {"name": "planned", "keys": [f"key {place}" for place in range(asked.keys)], "value_range": [0, 1]}
    made = [read_campaign(json.loads(json.dumps(rest | draft.fields))) for draft in found.drafts]
    chosen, itself = made[: len(ranked)], made[len(ranked) :]
    assert [one["mechanism"] for one in found.plan["candidates"]] == [each.name for each in ranked]
    assert [campaign.build() for campaign in chosen] == [each.mechanism for each in ranked]
    assert [campaign.protocol().start("q").mechanism for campaign in chosen] == [
        each.mechanism for each in ranked
    ]
    assert [campaign.mechanism for campaign in itself] == ["auto"] * (asked.want != "distribution")
    assert all(campaign.protocol().users == asked.users for campaign in itself)


def questions(most_keys, most_pairs):
    return st.builds(
        Question,
        users=st.integers(10, 10**8),
        keys=st.integers(1, most_keys),
        epsilon=st.floats(0.05, 12).map(lambda x: float(f"{x:.2g}")),
        pairs_per_user=st.integers(1, most_pairs),
        want=st.sampled_from(["frequency", "mean", "distribution"]),
    )


@settings(max_examples=12, deadline=None)
@given(questions(300, 6))
@example(Question(keys=26_744, pairs_per_user=2, want="frequency"))
def test_every_campaign_that_a_plan_offers_is_asked_as_the_plan_says(asked):
    check_drafts(asked)


@pytest.mark.nightly
@settings(max_examples=60, deadline=None)
@given(questions(MOST_KEYS, MOST_PAIRS))
def test_every_campaign_that_any_plan_offers_is_asked_as_the_plan_says(asked):
    check_drafts(asked)


def test_a_campaign_for_frequencies_alone_has_no_means_and_says_so():
    campaign = make_question("bucket", rho=1, cohorts=1024)
    assert campaign.id == make_question("bucket", rho=1.0, cohorts=1024).id != make_question("bucket").id
    people = synthetic(users=3_000, keys=40, seed=1)
    tally = replace(draw_tally(campaign.build(), people, insecure_generator(2)), question=f"{campaign.id}/1")
    shown = make_results(campaign, [tally], post="none", is_open=True)
    assert np.isnan(shown.columns["mean"]).all()
    assert (np.array(shown.columns["mean_low"]) == campaign.value_range[0]).all()
    assert np.nanmax(shown.columns["frequency_se"]) < np.sqrt(
        noise_per_report(make_question("bucket")) / 3_000
    )


def replace_solve(asked, solve):
    import msgspec

    return msgspec.structs.replace(asked, solve=solve)


def test_a_plan_that_nothing_reaches_says_what_would():
    with pytest.raises(PlanError, match="even one key has an error of"):
        planned(Question(solve="keys", users=100, epsilon=0.1, error=0.001))


def test_the_error_bar_is_that_of_the_estimate():
    campaign = make_question("kvue", pairs_per_user=1)
    mechanism = campaign.build()
    n = 40_000
    tally = Tally.of(question="q", n_reports=n, plus=[0] * 40, minus=[0] * 40, asked=[n // 40] * 40)
    error = estimate(mechanism, tally).frequency_se[0]
    assert np.sqrt(noise_per_report(campaign) / n) == pytest.approx(error, rel=1e-3)
    assert noise_per_report(make_question("privkvm", rounds=2)) is None


def test_files_are_sent_once_packed_and_by_name_only():
    page = assets()["index.html"]
    assert b"<script>" not in page.body
    assert b"style=" not in page.body
    status, headers, body = answer("app.js", takes_gzip=True, known_tag=None)
    assert (status, headers["content-encoding"]) == (200, "gzip")
    assert gzip.decompress(body) == assets()["app.js"].body
    assert answer("app.js", takes_gzip=True, known_tag=headers["etag"])[0] == 304
    for name in ("../assets.py", "nothing.js", "", "vendor/../app.js", "vendor/README.md"):
        assert answer(name, takes_gzip=False, known_tag=None) is None
    assert "unsafe" not in HEADERS["content-security-policy"]


def test_no_asset_names_another_address():
    """What the pages load, they load from here."""
    for name, asset in assets().items():
        if name.startswith("vendor/"):
            continue
        text = asset.body.decode().replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text, name
        assert "https://" not in text.replace("https://...", ""), name
        assert "innerHTML" not in text, name
        assert "insertAdjacentHTML" not in text, name
