"""Crossed records: who holds what of what is asked about, and what a kernel over them can lose."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from tests.support.crossed import asking

from keyveil.batch import Records, crossed
from keyveil.domain import Domain, Labelled, Pairs, Record
from keyveil.errors import CampaignError, DomainError
from keyveil.mechanisms import build
from keyveil.numerics import exp_below

LEVELS = (1.0, -1.0)


def records_over(n_keys: int) -> list[Record]:
    """Every set of keys with every value at an end of its range."""
    return [
        Record.of(dict(zip(held, values, strict=True)))
        for size in range(n_keys + 1)
        for held in itertools.combinations(range(n_keys), size)
        for values in itertools.product(LEVELS, repeat=size)
    ]


@pytest.mark.parametrize(
    "held", [((0, 1),), ((0, 2), (1, 2)), ((0, 1), (0, 2), (1, 2)), ((1, 3),), ((0, 3), (1, 2))]
)
def test_a_pair_is_held_by_whoever_holds_both_with_the_value_of_either(held):
    pairs = Pairs(held)
    for record in records_over(4):
        levels = dict(record.pairs)
        wanted = {code: levels[key] for code, key in enumerate(pairs.keys) if key in levels}
        for number, (a, b) in enumerate(held):
            if a in levels and b in levels:
                wanted |= {
                    len(pairs.keys) + 2 * number: levels[a],
                    len(pairs.keys) + 2 * number + 1: levels[b],
                }
        assert dict(pairs.of(record).pairs) == wanted
        assert len(wanted) <= pairs.length(len(levels))


def test_a_segment_is_a_key_that_everybody_of_it_holds():
    by = Labelled(("other", "x", "y"), 2)
    for record in records_over(2):
        for label in range(3):
            found = by.of(record, label).pairs
            assert {pair.code // by.width for pair in found} == {label}
            assert [pair.code % by.width for pair in found] == [*(pair.code for pair in record.pairs), 2]
            assert len(found) <= by.length(len(record.pairs))


@pytest.mark.parametrize(
    "crossing", [Pairs.among(range(4)), Pairs(((0, 2), (1, 3))), Labelled(("o", "x"), 4)]
)
def test_arrays_and_records_are_crossed_alike(crossing):
    held = records_over(4)
    labels = np.arange(len(held)) % 2
    over = crossed(Records.of(held), crossing, labels)
    wanted = [crossing.of(record, int(label)) for record, label in zip(held, labels, strict=True)]
    assert [over.record(user) for user in range(len(held))] == wanted


@pytest.mark.parametrize(
    ("crossing", "n_keys", "held"),
    [(Pairs.among(range(2)), 2, 2), (Labelled(("other", "x"), 1), 1, 1), (Labelled(("other", "x"), 2), 2, 1)],
)
@pytest.mark.parametrize("name", ["bucket", "kvue", "pckv-grr", "pckv-ue"])
def test_no_two_people_are_told_apart_by_more_than_epsilon(name, crossing, n_keys, held):
    """Over every answer, every record of few enough keys and every segment, as fractions."""
    length = 1 if name == "kvue" else min(crossing.length(held), crossing.n_codes)
    options = {"buckets": 3, "cohorts": 2} if name == "bucket" else {}
    mechanism = build(name, 1, n_keys=crossing.n_codes, pairs_per_user=length, word_bits=12, **options)
    labels = range(len(crossing.labels)) if isinstance(crossing, Labelled) else (0,)
    people = [crossing.of(record, label) for record in records_over(n_keys) for label in labels]
    worst = Fraction(1)
    for answer in mechanism.answers():
        chances = [mechanism.lift(answer, person) for person in people]
        worst = max(worst, max(chances) / min(chances))
    assert 1 < worst <= mechanism.loss <= exp_below(Fraction(1))


def test_a_domain_encodes_what_is_asked_about():
    plain = Domain(keys=("maps", "mail"), other=True)
    assert plain.names == plain.key_names == ("maps", "mail", "other")
    both = asking(pairs="all", other=True).domain
    assert both.n_keys == 3 + 2 * 3
    assert [both.name_of(pair.code) for pair in both.encode({"maps": 1.0, "chess": 2.0}).pairs] == [
        "maps",
        "other",
        "maps & other",
        "other & maps",
    ]
    private = asking(segments={"told": "private", "platform": ["ios"]}).domain
    assert [private.name_of(pair.code) for pair in private.encode({"mail": 1.0}, 1).pairs] == [
        "ios: mail",
        "ios",
    ]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"pairs": "some"}, "a list of pairs"),
        ({"pairs": [["maps"]]}, "two keys"),
        ({"pairs": [["maps", "chess"]]}, "keys lacks"),
        ({"pairs": [["maps", "maps"]]}, "different keys"),
        ({"pairs": [["maps", "mail"], ["mail", "maps"]]}, "once"),
        ({"pairs": "all", "keys": [str(n) for n in range(65)]}, "2 to 64 keys"),
        ({"pairs": "all", "mechanism": "auto"}, "one round"),
        ({"pairs": "all", "mechanism": "olh"}, "tells signs"),
        ({"pairs": "all", "keys": ["a", "b", "a & b"]}, "called alike"),
        ({"pairs": "all", "segments": {"told": "private", "platform": ["ios"]}}, "private segments"),
        ({"segments": {"told": "private", "platform": ["ios"], "country": ["de"]}}, "one attribute"),
    ],
)
def test_what_cannot_be_asked_is_refused(fields, said):
    with pytest.raises((CampaignError, DomainError), match=said):
        asking(**fields)


def test_a_campaign_s_text_says_pairs_one_way():
    listed = asking(pairs=[["mail", "maps"]])
    assert '"pairs":["mail","maps"]' in listed.canonical_json
    assert type(listed).from_text(listed.canonical_json) == listed
    assert '"pairs":' not in asking().canonical_json
