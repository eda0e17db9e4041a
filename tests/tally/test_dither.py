"""Reports are counted apart by the public word that rounded their values, whichever way they are counted."""

import os
from dataclasses import replace

import numpy as np
import pytest

from keyveil import Campaign
from keyveil.batch import InsecureSeededStream, Records
from keyveil.batch.perturb import perturb_many
from keyveil.domain import Record, bin_of_dither, dither_of
from keyveil.errors import TallyError
from keyveil.mechanisms import REGISTRY, build
from keyveil.numerics import WORD_BITS
from keyveil.report import HEADER_BYTES, REPORT_ID_BYTES
from keyveil.simulate import draw_tally, insecure_generator, synthetic
from keyveil.tally import Tally, count
from keyveil.tally.count import UNDECODED, Counter, decode
from keyveil.tally.dither import bins_of, dithers_of
from keyveil.tally.payloads import Payloads
from keyveil.tally.tally import Counts

SIGNED = sorted(name for name, cls in REGISTRY.items() if cls.for_epsilon(1, n_keys=3).tells_signs)
KEYS = tuple("abcdefg")


def asking(mechanism, dither=16):
    return Campaign(
        name="apps",
        epsilon=2,
        keys=KEYS,
        value_range=(0, 1),
        pairs_per_user=2,
        mechanism=mechanism,
        dither=dither,
    )


def reports_of(campaign, n, seed=3):
    rng = np.random.default_rng(seed)
    held = [
        Record.of({int(k): rng.uniform(-1, 1) for k in rng.choice(len(KEYS), 2, replace=False)})
        for _ in range(n)
    ]
    asked = campaign.only_round()
    rows = perturb_many(
        asked.mechanism,
        Records.of(held),
        tag=campaign.tag,
        stream=InsecureSeededStream(seed),
        ids=rng.integers(0, 256, (n, REPORT_ID_BYTES), dtype=np.uint8),
        is_dithered=asked.is_dithered,
    )
    return [row.tobytes() for row in rows]


def test_every_mechanism_that_rounds_values_to_one_sign_has_a_dither():
    assert SIGNED == ["bucket", "ks-ue", "kvue", "pckv-grr", "pckv-ue", "privkv"]


@pytest.mark.parametrize("bins", [2, 16, 256])
def test_bins_of_many_ids_are_those_of_each(bins, way):
    data = np.frombuffer(os.urandom(23 * 300), dtype=np.uint8)
    ids = Payloads(data=data, starts=23 * np.arange(300) + 5, n_bytes=REPORT_ID_BYTES)
    words = [dither_of(ids[place]) for place in range(300)]
    assert dithers_of(ids.matrix()).tolist() == words
    assert bins_of(ids, bins).tolist() == [bin_of_dither(word, bins) for word in words]


@pytest.mark.parametrize("name", SIGNED)
def test_each_report_is_counted_in_the_bin_of_its_id(name, way):
    campaign = asking(name)
    reports = reports_of(campaign, 700)
    found = campaign.tally(reports)
    groups: list[list[bytes]] = [[] for _ in range(16)]
    for report in reports:
        word = dither_of(report[HEADER_BYTES - REPORT_ID_BYTES : HEADER_BYTES])
        groups[bin_of_dither(word, 16)].append(report[HEADER_BYTES:])
    mechanism, question = campaign.build(), found.question
    for each, payloads in zip(found.apart(), groups, strict=True):
        assert each == count(mechanism, payloads, question=question)
    together = count(mechanism, [report[HEADER_BYTES:] for report in reports], question=question)
    assert found.pooled == together
    assert found.dither == 16
    assert Tally.from_json(found.to_json()) == found
    assert (campaign.tally(reports[:300]) + campaign.tally(reports[300:])) == found
    assert campaign.tally([]).dither == 16


def test_answers_that_waited_undecoded_say_the_same(way):
    campaign = replace(asking("bucket"), cohorts=16)
    asked, reports = campaign.only_round(), reports_of(campaign, 700)
    counter = Counter.of(asked)
    counter.add(
        Payloads.of([report[HEADER_BYTES:] for report in reports], asked.mechanism.layout.n_bytes),
        Payloads.of([report[HEADER_BYTES - REPORT_ID_BYTES : HEADER_BYTES] for report in reports], 16),
    )
    waiting = counter.undecoded()
    assert UNDECODED in waiting.cells
    assert decode(asked.mechanism, waiting) == campaign.tally(reports)


def test_answers_of_a_dithered_round_are_not_counted_without_their_ids():
    counter = Counter.of(asking("kvue").only_round())
    with pytest.raises(TallyError, match="counted with their ids"):
        counter.add(Payloads.of([b"\x00"], n_bytes=1))


def test_bins_of_the_dither_have_nothing_to_do_with_cohorts():
    """Chi-square of (cohort, bin) over ids in a row; were the bin the cohort's word it would be enormous."""
    from keyveil.domain import pick
    from keyveil.report import public_word

    n, cohorts, bins = 20_000, 4, 8
    ids = [number.to_bytes(16, "little") for number in range(n)]
    words = [public_word(bytes(16), 1, each) for each in ids]

    def chi_square(dithers):
        table = np.zeros((cohorts, bins))
        for word, dither in zip(words, dithers, strict=True):
            table[pick(word, cohorts), bin_of_dither(dither, bins)] += 1
        expected = n / cohorts / bins
        return float(((table - expected) ** 2 / expected).sum())

    # 31 degrees of freedom: five standard deviations of 7.9 above the mean.
    assert chi_square([dither_of(each) for each in ids]) < 31 + 5 * 62**0.5
    assert chi_square(words) > 10_000


@pytest.mark.parametrize("name", ["bucket", "kvue", "pckv-ue", "pckv-grr"])
def test_simulated_tallies_have_the_mean_of_those_that_reports_make(name):
    """Plus and minus by key and bin, over many draws of either; five standard errors."""
    campaign = asking(name, dither=4)
    people, runs = synthetic(users=400, keys=len(KEYS), seed=5), 150
    asked, records = campaign.only_round(), None
    drawn, sent = [], []
    records = Records.of(list(people.records()))
    for run in range(runs):
        drawn.append(cells(draw_tally(asked.mechanism, people, insecure_generator(1, run), dither=4)))
        ids = insecure_generator(2, run).integers(0, 256, (len(records), REPORT_ID_BYTES), dtype=np.uint8)
        rows = perturb_many(
            asked.mechanism,
            records,
            tag=campaign.tag,
            stream=InsecureSeededStream(run),
            ids=ids,
            is_dithered=True,
        )
        sent.append(cells(campaign.tally(row.tobytes() for row in rows)))
    off = np.mean(drawn, axis=0) - np.mean(sent, axis=0)
    error = np.sqrt((np.var(drawn, axis=0) + np.var(sent, axis=0)) / runs)
    assert np.all(np.abs(off) < 5 * error)
    # Were values drawn as if nothing were rounded by the bins, all bins would have the same mean.
    alike = np.mean(drawn, axis=(0, 2))[:, None] - np.mean(sent, axis=0)
    assert np.any(np.abs(alike) > 5 * error)


def cells(tally: Tally) -> Counts:
    return np.stack([tally.cells["plus"], tally.cells["minus"]])


def test_a_word_has_as_many_bits_as_bins_are_cut_from():
    assert bin_of_dither((1 << WORD_BITS) - 1, 256) == 255
    assert build("kvue", 1, n_keys=2).tells_signs
    assert not build("ue-sw", 1, n_keys=2).tells_signs
