"""Many reports at once: the device's answers, bit for bit from the same words, in law from bytes."""

import math
import os
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.batch import InsecureSeededStream, Records, SecureStream, noise, perturb_many
from keyveil.batch.answers import _kernel, answers_from_words, draw_answers, symbols_from_words
from keyveil.batch.perturb import words_of_ids
from keyveil.batch.stream import draw_octets, draw_words
from keyveil.batch.wide import as_words, bits_across, high, muldiv
from keyveil.domain import Record, level_of, pick, round_to_sign
from keyveil.errors import MechanismError, RecordError
from keyveil.mechanisms import (
    REGISTRY,
    BroadcastIndex,
    EncodedOracle,
    OwnKey,
    OwnSign,
    PopularSize,
    RecordSize,
    Response,
    SizeClass,
    Wave,
    build,
)
from keyveil.numerics import Words, planes
from keyveil.report import HEADER_BYTES, Envelope, Symbol, public_word
from keyveil.rounds import Round
from keyveil.tally import count, tally_reports

Z = 5


def people(n, n_keys, seed=1):
    rng = np.random.default_rng(seed)
    records = []
    for _ in range(n):
        codes = rng.choice(n_keys, rng.integers(0, n_keys + 1), replace=False)
        values = rng.choice([-1.0, 1.0, 0.0, 0.3, -0.77, 1 - 2**-53], codes.size)
        records.append(Record.of(dict(zip(codes.tolist(), values.tolist(), strict=True))))
    return records


def words_for(mechanism, n, seed=2):
    """Random words, some of them next to a threshold or at an end."""
    words = draw_words(InsecureSeededStream(seed), n, mechanism.n_words)
    rng = np.random.default_rng(seed)
    words[rng.random(words.shape) < 0.02] = 0
    words[rng.random(words.shape) < 0.02] = 2**64 - 1
    words[rng.random(words.shape) < 0.02] = 2**63
    return words


def instances(name):
    cls = REGISTRY[name]
    for n_keys, l in ((1, 1), (7, 1), (7, 3), (12, 20)):
        for allocation in cls.allocations:
            yield cls.for_epsilon("1.5", n_keys=n_keys, pairs_per_user=l, allocation=allocation)


@pytest.mark.parametrize("name", REGISTRY)
def test_the_same_words_give_the_same_answers_bit_for_bit(name, way):
    for mechanism in instances(name):
        records = people(150, mechanism.n_keys)
        words = words_for(mechanism, len(records))
        many = answers_from_words(mechanism, Records.of(records), words)
        for record, row, told in zip(records, words.tolist(), many, strict=True):
            answer = mechanism.perturb(record, Words.of(row))
            assert mechanism.layout.encode(answer) == told.tobytes(), mechanism


ENCODERS = [
    RecordSize(n_keys=7, largest=4),
    SizeClass(n_keys=7, starts=(0, 1, 3, 5)),
    OwnSign(n_keys=7),
    PopularSize(n_keys=7, popular=(1, 2), most=2, starts=(1, 3)),
    OwnKey(n_keys=7),
]


@pytest.mark.parametrize("encoder", ENCODERS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("oracle", [Response, Wave])
def test_the_small_groups_of_auto_too(encoder, oracle):
    mechanism = EncodedOracle(encoder=encoder, oracle=oracle.for_epsilon(1, encoder.n_symbols))
    records = people(300, 7)
    words = words_for(mechanism, len(records))
    many = answers_from_words(mechanism, Records.of(records), words)
    for record, row, told in zip(records, words.tolist(), many, strict=True):
        assert mechanism.layout.encode(mechanism.perturb(record, Words.of(row))) == told.tobytes()


def test_later_rounds_of_privkvm_too():
    levels = (0, 2**64, 2**63, level_of(0.3), level_of(-0.9))
    mechanism = BroadcastIndex.for_budgets(Fraction(1), Fraction(1), levels=levels)
    records = people(400, 5)
    words = words_for(mechanism, len(records))
    many = answers_from_words(mechanism, Records.of(records), words)
    for record, row, told in zip(records, words.tolist(), many, strict=True):
        assert mechanism.layout.encode(mechanism.perturb(record, Words.of(row))) == told.tobytes()


def test_buckets_with_long_records_ties_and_everything_owned():
    for options in ({"rho": "1/2"}, {"rho": "-1/8"}, {"buckets": 3, "rho": 0}, {"buckets": 9, "cohorts": 3}):
        mechanism = build("bucket", 1, n_keys=30, pairs_per_user=9, **({"buckets": 9} | options))
        records = people(200, 30)
        words = words_for(mechanism, len(records))
        many = answers_from_words(mechanism, Records.of(records), words)
        for record, row, told in zip(records, words.tolist(), many, strict=True):
            assert mechanism.layout.encode(mechanism.perturb(record, Words.of(row))) == told.tobytes()


# --- bytes and tails ---


class Scripted:
    """A stream whose first bytes are given; tails are given apart."""

    def __init__(self, first):
        self._first = first.view(np.uint8).reshape(-1)

    def fill(self, target):
        target.reshape(-1)[:] = self._first


def near(threshold, rng, n):
    """Words around a threshold: those that agree with it in many bits decide by the last."""
    shift = rng.integers(0, 64, n).astype(np.uint64)
    noise_bits = rng.integers(0, 2**63, n, dtype=np.uint64) >> shift
    return np.uint64(threshold) ^ noise_bits


@pytest.mark.parametrize("length", [1, 3, 4, 5, 31, 200])
def test_trits_from_bytes_are_those_of_whole_words(length, way, monkeypatch):
    rng, n = np.random.default_rng(length), 60
    low, high_ = 3 * 2**61 + 12345, 5 * 2**61 + 777
    n_bytes = (2 * length + 7) // 8
    words = np.where(
        rng.random((n, n_bytes, 4)) < 0.5, near(low, rng, (n, n_bytes, 4)), near(high_, rng, (n, n_bytes, 4))
    )
    octets = (words >> np.uint64(56)).astype(np.uint8)
    tied = (octets == low >> 56) | (octets == high_ >> 56)
    tails = (words[tied] << np.uint64(8)).astype("<u8")
    stream = Scripted(np.ascontiguousarray(octets.transpose(0, 2, 1)))
    monkeypatch.setattr(noise, "draw_words", lambda *_: tails)
    out = noise.draw_trits(stream, n, length, low, high_)
    expected = np.where(words < np.uint64(low), 1, np.where(words < np.uint64(high_), 2, 0)).reshape(n, -1)
    told = (out[:, :, None] >> np.arange(0, 8, 2) & 3).reshape(n, -1)
    assert (told[:, :length] == expected[:, :length]).all()
    assert not told[:, length:].any()


@pytest.mark.parametrize("length", [1, 8, 9, 250])
def test_bits_from_bytes_are_those_of_whole_words(length, way, monkeypatch):
    rng, n, threshold = np.random.default_rng(length), 60, 3 * 2**62 + 4321
    n_bytes = (length + 7) // 8
    words = near(threshold, rng, (n, n_bytes, 8))
    octets = (words >> np.uint64(56)).astype(np.uint8)
    tails = (words[octets == threshold >> 56] << np.uint64(8)).astype("<u8")
    stream = Scripted(np.ascontiguousarray(octets.transpose(0, 2, 1)))
    monkeypatch.setattr(noise, "draw_words", lambda *_: tails)
    out = noise.draw_bits(stream, n, length, threshold)
    told = np.unpackbits(out, axis=1, bitorder="little")
    assert (told[:, :length] == (words < np.uint64(threshold)).reshape(n, -1)[:, :length]).all()
    assert not told[:, length:].any()


@pytest.mark.parametrize("count", [1, 5, 110])
def test_numbers_from_digits_are_those_of_whole_words(count, way, monkeypatch):
    rng, n, length, step = np.random.default_rng(count), 50, 37, 2**64 // (count + 40) + 5
    shape = (n, length)
    edges = np.uint64(step) * rng.integers(0, count + 2, shape).astype(np.uint64)
    anywhere = rng.integers(0, 2**64, shape, dtype=np.uint64)
    words = np.where(rng.random(shape) < 0.5, edges - rng.integers(0, 2, shape).astype(np.uint64), anywhere)
    digits = (words >> np.uint64(48)).astype("<u2")
    table = noise._table(step, count)
    tails = (words[table[digits] == noise._TIE] << np.uint64(16)).astype("<u8")
    bits = max(1, count.bit_length())
    monkeypatch.setattr(noise, "draw_words", lambda *_: tails)
    out = noise.draw_numbers(Scripted(digits), n, length, step, count, bits)
    cell = words // np.uint64(step)
    expected = np.where(cell < count, cell + np.uint64(1), 0).astype(np.int64)
    assert (out == noise.pack_numbers(expected, bits)).all()


@pytest.mark.parametrize(("n_keys", "l"), [(1, 1), (7, 3), (30, 300)])
def test_signed_responses_from_digits_are_those_of_whole_words(n_keys, l):
    """Words next to every threshold, cut into digits and tails, answer as whole words do, both ways."""
    pytest.importorskip("numba")
    from keyveil.batch import loops

    mechanism = build("pckv-grr", 2, n_keys=n_keys, pairs_per_user=l)
    c, n, rng = mechanism.channel, 4000, np.random.default_rng(n_keys)
    many = Records.of(people(40, n_keys) * (n // 40))
    words = words_for(mechanism, n)
    slots = np.maximum(many.sizes, l)
    # Slots, dummies and responses at the edge between two choices, or one word off.
    off = rng.integers(-1, 2, (n, 3)).astype(np.uint64)
    edge = [-(-(int(rng.integers(0, m)) << 64) // int(m)) % 2**64 for m in slots]
    words[:, 0] = np.where(rng.random(n) < 0.7, as_words(edge) + off[:, 0], words[:, 0])
    edge = [-(-(int(k) << 64) // l) % 2**64 for k in rng.integers(0, l, n)]
    words[:, 1] = np.where(rng.random(n) < 0.7, as_words(edge) + off[:, 1], words[:, 1])
    lies = rng.integers(0, 2 * (n_keys + l) - 2, n)
    edge = [min(c.keep + c.flip + int(k) * c.fake, 2**64 - 1) if k % 5 else c.keep for k in lies]
    words[:, 3] = np.where(rng.random(n) < 0.7, as_words(edge) + off[:, 2], words[:, 3])
    expected = [mechanism.perturb(many.record(u), Words.of(row)) for u, row in enumerate(words.tolist())]
    assert symbols_from_words(mechanism, many, words).tolist() == expected
    slot, dummy, rounding, word = words.T
    mask, chances = np.uint64(0xFFFF), (c.keep, c.keep + c.flip, c.fake)
    digits = (
        word & ~np.uint64(2**32 - 1) | slot >> np.uint64(48) << np.uint64(16) | dummy >> np.uint64(48) & mask
    )
    # Which tails a row takes, found with tails that are all of one kind.
    full = np.uint64(2**64 - 1)
    zeros = noise.split_words(digits, np.zeros(4 * n, dtype=np.uint64), as_words(slots), l, *chances)
    ones = noise.split_words(digits, np.full(4 * n, full), as_words(slots), l, *chances)
    tied = (zeros != ones)[:, [0, 1, 3, 2]]
    rest = np.stack([slot << np.uint64(16), dummy << np.uint64(16), word << np.uint64(32), rounding], axis=1)
    tails = rest[tied]
    assert tied.any()
    whole = noise.split_words(digits, tails, as_words(slots), l, *chances)
    assert symbols_from_words(mechanism, many, whole).tolist() == expected
    symbols = np.empty(n, dtype=np.int64)
    held, spare = (
        (many.offsets, many.codes, many.values),
        np.concatenate([tails, np.zeros(4, dtype=np.uint64)]),
    )
    done = loops.respond_signed_digits(symbols, digits, spare, 0, *held, _kernel(mechanism))
    assert done == n
    assert symbols.tolist() == expected


@pytest.mark.parametrize("draw", ["trits", "bits", "numbers"])
def test_compiled_noise_and_numpy_noise_are_the_same(draw, monkeypatch):
    made = []
    for way in (True, False):
        monkeypatch.setattr(noise, "is_compiled", lambda _, way=way: way)
        stream = InsecureSeededStream(5)
        if draw == "trits":
            made.append(noise.draw_trits(stream, 300, 1001, 2**62 + 99, 2**63 + 17))
        elif draw == "bits":
            made.append(noise.draw_bits(stream, 300, 1001, 2**62 + 99))
        else:
            made.append(noise.draw_numbers(stream, 300, 101, 2**64 // 150, 110, 7))
    assert (made[0] == made[1]).all()


def test_rows_that_want_more_tails_than_were_drawn_get_more(way, monkeypatch):
    """All bytes tie, so every position takes a tail, and sixty suffice for one row."""
    low, n, length, calls = 2**63, 50, 40, []
    monkeypatch.setattr(noise, "draw_words", lambda *_: calls.append(1) or np.zeros(60, dtype=np.uint64))
    octets = np.full((n, 4, 10), low >> 56, dtype=np.uint8)
    out = noise.draw_trits(Scripted(octets), n, length, low + 1, low + 2)
    assert (out == 0x55).all()
    assert len(calls) == n


# --- the law ---


def chi_square_z(seen, law, n):
    statistic = sum((seen[cell] - n * p) ** 2 / (n * p) for cell, p in law.items())
    return (statistic - len(law) + 1) / math.sqrt(2 * (len(law) - 1))


BULK = ("pckv-grr", "pckv-ue", "ks-ue", "oue", "rappor-harmony", "oue-harmony", "ue-sw")


@pytest.mark.statistical
@pytest.mark.parametrize("name", BULK)
def test_bulk_noise_follows_the_kernel_and_a_slightly_wrong_kernel_is_seen(name, way):
    cls = REGISTRY[name]
    options = {"n_keys": 2, "pairs_per_user": 2, **cls.small_options}
    mechanism, wrong = cls.for_epsilon(1, **options), cls.for_epsilon("1.3", **options)
    n, record = 60_000, Record.of({0: 0.5, 1: -1.0})
    payloads = draw_answers(mechanism, Records.of([record] * n), InsecureSeededStream(11))
    seen = Counter(payload.tobytes() for payload in payloads)
    encode = mechanism.layout.encode
    law, other = (
        {encode(answer): float(m.probability(answer, record)) for answer in m.answers()}
        for m in (mechanism, wrong)
    )
    assert set(seen) <= set(law)
    assert chi_square_z(seen, law, n) < Z
    assert chi_square_z(seen, other, n) > Z, "a kernel of epsilon 1.3 is told from one of epsilon 1"


@pytest.mark.statistical
@pytest.mark.parametrize("name", REGISTRY)
@pytest.mark.parametrize("ids", ["own", "issued"])
def test_reports_of_many_are_counted_and_each_has_its_own_id(name, ids):
    mechanism = REGISTRY[name].for_epsilon(1, n_keys=9, pairs_per_user=2)
    mechanism = mechanism.with_issued_ids() if ids == "issued" else mechanism
    records = people(700, 9)
    reports = perturb_many(mechanism, Records.of(records), tag=bytes(16), round=3)
    assert len({row[19:35].tobytes() for row in reports}) == len(records)
    asked = Round(campaign="00" * 32, number=3, purpose="collect", mechanism=mechanism)
    tally = tally_reports(asked, map(bytes, reports))
    payloads = [Envelope.from_bytes(bytes(row)).payload for row in reports]
    assert tally == count(mechanism, payloads, question=asked.question)


def test_no_records_make_no_reports():
    for name in REGISTRY:
        mechanism = build(name, 1, n_keys=3)
        assert perturb_many(mechanism, Records.of([]), tag=bytes(16)).shape[0] == 0
        empty = Records.of([Record.of({})] * 3)
        assert perturb_many(mechanism, empty, tag=bytes(16)).shape[0] == 3


# --- streams ---


def test_a_secure_stream_never_repeats_itself_not_even_after_a_fork():
    stream = SecureStream()
    first = draw_octets(stream, 32).tobytes()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, draw_octets(stream, 32).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    assert len({first, draw_octets(stream, 32).tobytes(), os.read(read, 32)}) == 3


def test_a_secure_stream_changes_its_key(monkeypatch):
    from keyveil.batch import stream as module

    monkeypatch.setattr(module, "_PER_KEY", 100)
    stream = SecureStream()
    draw_octets(stream, 60)
    cipher = stream._cipher
    draw_octets(stream, 60)
    assert stream._cipher is not cipher


def test_without_the_cipher_bytes_come_from_the_system(monkeypatch):
    from keyveil.batch import stream as module

    monkeypatch.setattr(module, "_has_cipher", lambda: False)
    asked = []
    monkeypatch.setattr(module.os, "urandom", lambda n: asked.append(n) or bytes(n))
    assert not draw_octets(SecureStream(), 5, 7).any()
    assert asked == [35]


@pytest.mark.statistical
def test_secure_bytes_are_even():
    n = 1 << 20
    seen = np.bincount(draw_octets(SecureStream(), n), minlength=256)
    # Chi-square with 255 degrees of freedom; five standard errors.
    assert abs(((seen - n / 256) ** 2 / (n / 256)).sum() - 255) < 7 * math.sqrt(2 * 255)


# --- exact products ---


word = st.integers(0, 2**64 - 1)


@given(st.lists(st.tuples(word, word), min_size=1, max_size=20))
def test_high_is_the_upper_half_of_a_product(pairs):
    a, b = (as_words([pair[side] for pair in pairs]) for side in (0, 1))
    assert high(a, b).tolist() == [x * y >> 64 for x, y in pairs]


@given(word, st.integers(1, 2**64 - 1), st.integers(0, 2**21))
def test_muldiv_rounds_down_exactly(a, divisor, b):
    a %= divisor
    assert muldiv(as_words([a]), b, as_words([divisor])).tolist() == [a * b // divisor]
    near_multiple = -(-(a * divisor) // max(b, 1)) % divisor
    for exact in (near_multiple, max(near_multiple - 1, 0)):
        assert muldiv(as_words([exact]), b, as_words([divisor])).tolist() == [exact * b // divisor]


@given(st.lists(word, min_size=1, max_size=40))
def test_bits_across_are_the_planes_of_a_device(words):
    sliced = planes(Words.of(words))
    numbers = [sum((plane >> k & 1) << i for i, plane in enumerate(sliced)) for k in range(len(words))]
    assert bits_across(as_words([words])).tolist() == [numbers]


@given(st.floats(-1, 1), word)
def test_rounding_many_is_rounding_one(value, drawn):
    from keyveil.batch.records import round_to_plus

    expected = round_to_sign(level_of(value), drawn) > 0
    assert round_to_plus(np.array([value]), as_words([drawn])).tolist() == [expected]


def test_public_words_of_many_ids_are_those_of_each():
    ids = np.arange(160, dtype=np.uint8).reshape(10, 16)
    expected = [public_word(bytes(16), 5, row.tobytes()) for row in ids]
    assert words_of_ids(bytes(16), 5, ids).tolist() == expected


# --- records ---


def test_records_keep_what_they_hold_and_hide_it():
    records = people(50, 9)
    many = Records.of(records)
    assert [many.record(user) for user in range(50)] == records
    assert repr(many) == "<50 private records>"
    with pytest.raises(RecordError):
        many.__reduce__()
    assert [many.part(10, 20).record(user) for user in range(10)] == records[10:20]


def test_sampling_many_is_sampling_one():
    records = people(200, 5)
    words = draw_words(InsecureSeededStream(1), 200)
    codes, _ = Records.of(records).sample(3, words)
    for record, code, drawn in zip(records, codes.tolist(), words.tolist(), strict=True):
        slot = pick(drawn, max(len(record.pairs), 3))
        assert code == (record.pairs[slot].code if slot < len(record.pairs) else -1)


def test_short_words_are_refused():
    mechanism = REGISTRY["pckv-ue"].for_epsilon(1, n_keys=3, word_bits=16)
    with pytest.raises(MechanismError, match="64-bit words, got 16"):
        perturb_many(mechanism, Records.of([Record.of({})]), tag=bytes(16))


def test_reports_are_as_long_as_the_campaign_says():
    for name in REGISTRY:
        mechanism = build(name, 1, n_keys=20, pairs_per_user=2)
        length = HEADER_BYTES + mechanism.layout.n_bytes
        assert perturb_many(mechanism, Records.of(people(3, 20)), tag=bytes(16)).shape == (3, length)
        assert isinstance(mechanism.layout, Symbol) or mechanism.layout.n_bytes > 1
