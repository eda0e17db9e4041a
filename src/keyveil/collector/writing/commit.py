"""Group commit: the uploads of a group become one transaction, ids, reports and tallies together, or nothing.

For every campaign in the group, in order: which round is open, which reports can be counted, which ids
are new. A report that is known by its id is a duplicate, whatever else is wrong with it by now: a device
whose answer was lost must hear that its report counts. A round that is closed by count takes as many new
reports as there is room for, in the order in which they came; the others hear that it is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from keyveil.batch.partition import Block, judge
from keyveil.batch.stream import Bytes
from keyveil.collector.campaigns.cache import CampaignCache, RoundGrowth, StoredCampaign
from keyveil.collector.campaigns.ids import is_issued
from keyveil.collector.problems import NOT_ISSUED, ROUND_CLOSED, Problem
from keyveil.collector.store.base import BatchRow, Store, Writing
from keyveil.collector.store.runs import ids_in
from keyveil.collector.writing.upload import Upload, UploadPart
from keyveil.errors import Refusal
from keyveil.rounds import Round

DUPLICATE = "duplicate"


def commit_group(
    store: Store,
    cache: CampaignCache,
    uploads: Sequence[Upload],
    now: float,
    prepared: Callable[[], None] = lambda: None,
) -> list[RoundGrowth]:
    """Write what can be counted and mark what cannot; nothing is marked for good unless this returns.

    `prepared` is called when all is done but the commit.
    """
    for upload in uploads:
        upload.reset()
    with store.gather() as tx:
        waiting: dict[str, list[Upload]] = {}
        for upload in uploads:
            waiting.setdefault(upload.campaign, []).append(upload)
        known = {}
        for campaign in waiting:
            found = cache.campaign(tx, campaign)
            if found is None:
                raise AssertionError("an upload to a campaign that was never met")
            known[found.no] = found
        tokens = sorted({upload.token for upload in uploads if upload.token is not None})
        live, open_rounds = tx.begin_group(tokens, sorted(known))
        _refuse_revoked(uploads, live)
        grown: list[RoundGrowth] = []
        for no in sorted(known):
            row = open_rounds.get(no)
            is_open = row is not None and (row.closes_at is None or now < row.closes_at)
            asked = cache.described(known[no], row) if row is not None and is_open else None
            last = row.number if row is not None else max((r.number for r in tx.rounds(no)), default=0)
            sound = [upload for upload in waiting[known[no].id] if upload.problem is None]
            grown += _commit_campaign(tx, cache, known[no], sound, asked, last)
        prepared()
        return grown


def _refuse_revoked(uploads: Sequence[Upload], live: set[str]) -> None:
    """A token that was revoked opens nothing, even if the upload was on its way."""
    for upload in uploads:
        if upload.token is not None and upload.token not in live:
            upload.problem = Problem("unknown-token")


def _commit_campaign(
    tx: Writing,
    cache: CampaignCache,
    known: StoredCampaign,
    uploads: list[Upload],
    asked: Round | None,
    last: int,
) -> Iterable[RoundGrowth]:
    fitting: list[tuple[Upload, UploadPart]] = []
    others: list[tuple[Upload, UploadPart]] = []
    number, length = (None, 0) if asked is None else (asked.number, asked.report_bytes)
    for upload in uploads:
        for part in upload.parts:
            if asked is not None and (part.round, part.length) == (number, length):
                fitting.append((upload, part))
            else:
                others.append((upload, part))
    _refuse(tx, known, others, number, last)
    if asked is None:
        return []
    secret = cache.secret(tx, known) if known.issues_ids else None
    grown = _count(tx, known, asked, fitting, secret) if fitting else []
    _note_batches(tx, known, asked, uploads)
    return grown


def _note_batches(tx: Writing, known: StoredCampaign, asked: Round, uploads: list[Upload]) -> None:
    """How many reports of each batch came and were counted, in the transaction that counts them."""
    for upload in uploads:
        if upload.batch is not None and upload.batch.round == asked.number:
            id, round_, size, part, received = upload.batch
            row = BatchRow(round=round_, id=id, size=size, received=received, counted=upload.n_accepted)
            tx.add_part(known.no, part, row)


def _refuse(
    tx: Writing, known: StoredCampaign, parts: list[tuple[Upload, UploadPart]], number: int | None, last: int
) -> None:
    """Duplicates of what was counted; or reports to a round that is over or not yet open, or misshapen."""
    ids = [ids_in(part.reports, part.length) for _, part in parts]
    # One question for all: an upload may be of thousands of parts.
    counted = tx.known_ids(known.no, [name for names in ids for name in names]) if parts else set()
    for (upload, part), names in zip(parts, ids, strict=True):
        if part.round == number:
            status = Refusal.WRONG_LENGTH.value
        elif 1 <= part.round <= last:
            status = ROUND_CLOSED
        else:
            status = Refusal.WRONG_ROUND.value
        for place, name in zip(part.places, names, strict=True):
            upload.mark((place,), DUPLICATE if name in counted else status)


def _count(
    tx: Writing,
    known: StoredCampaign,
    round: Round,
    fitting: list[tuple[Upload, UploadPart]],
    secret: bytes | None,
) -> Iterable[RoundGrowth]:
    length = round.report_bytes
    joined = fitting[0][1].reports if len(fitting) == 1 else b"".join(part.reports for _, part in fitting)
    rows: Bytes = np.frombuffer(joined, dtype=np.uint8).reshape(-1, length)
    ids = ids_in(joined, length)
    # Most groups hold nothing but new answers: they are counted while they are judged.
    delta, refused = judge(round, _block(rows), decoded=False)
    if secret is not None:
        foreign = (row for row, name in enumerate(ids) if not is_issued(secret, name))
        refused = {**dict.fromkeys(foreign, NOT_ISSUED), **refused}
    sound = ids if not refused else [name for row, name in enumerate(ids) if row not in refused]
    sound = list(dict.fromkeys(sound))
    room = _room(tx, known, round.number)
    beyond = set() if room is None else _beyond(tx, known.no, sound, room)
    fresh = tx.claim_ids(known.no, round.number, [name for name in sound if name not in beyond])
    if len(fresh) == len(ids):
        kept = rows
    else:
        # The first of equal ids counts, the others repeat it.
        first: dict[bytes, int] = {}
        for row, name in enumerate(ids):
            if row not in refused:
                first.setdefault(name, row)
        counted = tx.known_ids(known.no, [ids[row] for row in refused]) if refused else set()
        taken = {first[name] for name in fresh}
        kept = rows[sorted(taken)]
        joined = kept.tobytes()
        row = 0
        for upload, part in fitting:
            for place in part.places:
                if row not in taken:
                    why = refused.get(row) or (ROUND_CLOSED if ids[row] in beyond else DUPLICATE)
                    upload.mark((place,), DUPLICATE if ids[row] in counted else why)
                row += 1
        delta, _ = judge(round, _block(kept), decoded=False)
    is_full = room is not None and len(kept) >= room
    if not len(kept):
        # Whoever filled the round may not have come to closing it.
        return [RoundGrowth(known.id, round.number, 0, is_full)] if is_full and beyond else []
    tx.add_block(known.no, round.number, length, joined, delta)
    return [RoundGrowth(known.id, round.number, len(kept), is_full)]


def _room(tx: Writing, known: StoredCampaign, round: int) -> int | None:
    """How many more reports a round takes; None where it is not closed by count."""
    limit = known.terms.close_at_count
    return None if limit is None else limit - tx.lock_count(known.no, round)


def _beyond(tx: Writing, campaign: int, ids: list[bytes], room: int) -> set[bytes]:
    """Those of the ids that are new and do not fit into a round that takes so many more."""
    if len(ids) <= room:
        return set()
    old = tx.known_ids(campaign, ids)
    return set([name for name in ids if name not in old][max(room, 0) :])


def _block(rows: Bytes) -> Block:
    """Reports of one length, a row each."""
    n_rows, length = rows.shape
    starts = length * np.arange(n_rows, dtype=np.int64)
    return Block(data=rows.reshape(-1), starts=starts, lengths=np.full(n_rows, length))
