"""What is sealed opens for its key, campaign and round, and for nothing else; its length says nothing."""

import pytest

from keyveil.errors import Refusal, ReportRejected
from keyveil.sealing import SEALED_OVERHEAD, OpeningKey, SealedHeader, SealingKey, key_id

CAMPAIGN, OTHER = "ab" * 32, "cd" * 32


@pytest.fixture(scope="module")
def key() -> OpeningKey:
    return OpeningKey.fresh()


def sealed_to(key: OpeningKey, report: bytes = b"noised", campaign: str = CAMPAIGN, round: int = 1) -> bytes:
    return SealingKey(key.public).seal(report, campaign=campaign, round=round)


def test_what_is_sealed_opens(key: OpeningKey) -> None:
    sealed = sealed_to(key)
    assert key.open(sealed, campaign=CAMPAIGN, round=1) == b"noised"
    assert SealedHeader.read(sealed) == SealedHeader(key_id(key.public), 1)


@pytest.mark.parametrize("length", [0, 1, 35, 4000])
def test_length_follows_from_the_report_s(key: OpeningKey, length: int) -> None:
    assert len(sealed_to(key, bytes(length))) == length + SEALED_OVERHEAD


def test_the_same_report_is_never_sealed_alike(key: OpeningKey) -> None:
    assert len({sealed_to(key) for _ in range(20)}) == 20


@pytest.mark.parametrize(("campaign", "round"), [(OTHER, 1), (CAMPAIGN, 2)])
def test_it_opens_for_no_other_campaign_or_round(key: OpeningKey, campaign: str, round: int) -> None:
    with pytest.raises(ReportRejected) as refused:
        key.open(sealed_to(key), campaign=campaign, round=round)
    assert refused.value.code is Refusal.NOT_SEALED


def test_a_header_that_was_moved_to_another_round_opens_nothing(key: OpeningKey) -> None:
    sealed = bytearray(sealed_to(key))
    sealed[9] = 2
    with pytest.raises(ReportRejected):
        key.open(bytes(sealed), campaign=CAMPAIGN, round=2)


def test_every_changed_byte_is_noticed(key: OpeningKey) -> None:
    sealed = sealed_to(key)
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises(ReportRejected):
            key.open(bytes(changed), campaign=CAMPAIGN, round=1)


def test_another_key_opens_nothing(key: OpeningKey) -> None:
    other = OpeningKey.fresh()
    with pytest.raises(ReportRejected) as refused:
        other.open(sealed_to(key), campaign=CAMPAIGN, round=1)
    assert refused.value.code is Refusal.NOT_SEALED


@pytest.mark.parametrize("size", [0, 1, 10, 11, 43, SEALED_OVERHEAD])
def test_what_is_too_short_is_refused(key: OpeningKey, size: int) -> None:
    with pytest.raises(ReportRejected) as refused:
        key.open(sealed_to(key)[:size], campaign=CAMPAIGN, round=1)
    assert refused.value.code is Refusal.WRONG_LENGTH


def test_of_many_those_that_open_are_told_apart(key: OpeningKey) -> None:
    bodies = [sealed_to(key, b"a")[11:], b"", b"x" * 49, bytes(80), sealed_to(key, b"b")[11:]]
    assert key.open_each(bodies, campaign=CAMPAIGN, round=1) == [b"a", None, None, None, b"b"]


def test_a_private_key_shows_in_no_repr(key: OpeningKey) -> None:
    assert key.private.hex() not in repr(key)
    assert repr(key.private) not in repr(key)
