"""Plant faults, one at a time, in a copy of the package; the tests must catch each.

    python scripts/mutants.py            prints "80 of 80 caught" and exits with 0

A fault is a replacement in one file. The tests run against the copy and stop at the first failure. That every
fault still finds its line is a test of the gate (tests/scripts).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The likeliest to catch a fault come first; the run stops at the first failure.
FOLDERS = ("numerics", "mechanisms", "simulate", "domain", "report", "tally", "estimate", "audit", "client")

DEVICE = ("client/test_vectors.py", "client/test_ledger.py", "client/test_transcripts.py")
RELAY = ("relay/test_path.py", "relay/test_hostile.py")
COLLECTOR = ("collector/test_uploads.py", "collector/test_machine.py", "collector/test_roles.py")


@dataclass(frozen=True)
class Fault:
    """A replacement that must make a test fail."""

    name: str
    file: str
    right: str
    wrong: str
    folders: tuple[str, ...] = FOLDERS


FAULTS = (
    Fault(
        "a flipped comparison",
        "mechanisms/trits/unary.py",
        "plus, minus = not_plus ^ everywhere,",
        "plus, minus = not_plus,",
    ),
    Fault(
        "p for q: a lie told as often as the truth",
        "mechanisms/channel.py",
        "if word < self.keep:",
        "if word < self.flip:",
    ),
    Fault(
        "two lies too few for a set",
        "mechanisms/selection.py",
        "lie = ceil_div(",
        "lie = -2 + ceil_div(",
        ("mechanisms/test_selection.py",),
    ),
    Fault(
        "spare numbers that follow the symbol",
        "mechanisms/selection.py",
        "return unrank(self.n_symbols, self.chosen, number)",
        "return unrank(self.n_symbols, self.chosen, number + symbol)",
        ("mechanisms/test_selection.py",),
    ),
    Fault(
        "a set with a symbol missing is counted",
        "tally/bits.py",
        "!= layout.chosen",
        "> layout.chosen",
        ("mechanisms/test_selection.py",),
    ),
    Fault(
        "one position never noised",
        "mechanisms/trits/unary.py",
        "join_trits(plus & everywhere, minus & everywhere, d)",
        "join_trits(plus & everywhere >> 1, minus & everywhere >> 1, d)",
    ),
    Fault(
        "rounding away from privacy",
        "numerics/probability.py",
        "return -(-numerator // denominator)",
        "return int(numerator // denominator)",
    ),
    Fault(
        "an exponential just above instead of just below",
        "numerics/probability.py",
        "Fraction(total - (total >> _MARGIN_BITS), 1 << _BITS)",
        "Fraction(total + (total >> _MARGIN_BITS), 1 << _BITS)",
    ),
    Fault(
        "a dummy too few",
        "mechanisms/symbol/response.py",
        "self.n_keys + pick(dummy, self.pairs_per_user, bits)",
        "self.n_keys + pick(dummy, max(1, self.pairs_per_user - 1), bits)",
    ),
    Fault(
        "an off-by-one key",
        "mechanisms/symbol/response.py",
        "2 * (lie >= 2 * key)",
        "2 * (lie > 2 * key)",
    ),
    Fault(
        "a reused random word",
        "mechanisms/trits/unary.py",
        "round_to_sign(sampled.level, words[1], bits)",
        "round_to_sign(sampled.level, words[0], bits)",
    ),
    Fault(
        "the sampling term left out of the variance, as in the papers",
        "mechanisms/channel.py",
        "(noise + owners + true_share * (l - 1)) / asked",
        "(noise + owners) / asked",
    ),
    Fault(
        "simulated counts of the wrong sign",
        "simulate/laws.py",
        "return up_kept + down_flipped + fake_up, down_kept",
        "return up_kept + up_flipped + fake_up, down_kept",
    ),
    Fault(
        "a price rounded down",
        "numerics/probability.py",
        "return -(-(log + doublings * _LN_2) >> _BITS - PRICE_BITS)",
        "return (log + doublings * _LN_2) >> _BITS - PRICE_BITS",
        ("numerics",),
    ),
    Fault(
        "a field that nobody asked for, believed",
        "mechanisms/named.py",
        'if set(said) - ({"ids"} if issued else set()) != {"id", *cls.fields}:',
        'if not {"id", *cls.fields} <= set(said):',
        DEVICE,
    ),
    Fault(
        "a device that answers a round again",
        "client/reporter.py",
        "        return answer\n\n    def _check_answerable",
        "        return None\n\n    def _check_answerable",
        DEVICE,
    ),
    Fault(
        "a device that repeats under any description",
        "client/reporter.py",
        "if answer is not None and answer.pin not in (None, asked.pin):",
        "if answer is not None and answer.pin is asked:",
        DEVICE,
    ),
    Fault(
        "a device that answers for other groups",
        "client/reporter.py",
        "if not asked.round.asks(account.place(self._campaign.id)):",
        "if asked.round is None:",
        DEVICE,
    ),
    Fault(
        "rounds that are not added up",
        "client/permission.py",
        "here = account.spent(campaign)",
        "here = 0",
        DEVICE,
    ),
    Fault(
        "a device that answers waves beside its panel",
        "client/waves.py",
        "if self.number not in self.panel(account):",
        "if not self.panel(account):",
        DEVICE,
    ),
    Fault(
        "a wave that is answered again as another campaign",
        "client/waves.py",
        "if known != self.campaign:",
        "if not known:",
        DEVICE,
    ),
    Fault(
        "a series that is booked for one answer",
        "client/waves.py",
        "units=whole_price(campaign.epsilon, series.answers)",
        "units=whole_price(campaign.epsilon, 1)",
        DEVICE,
    ),
    Fault(
        "a year in which a clock that was set back is believed",
        "client/ledger.py",
        "given = math.ceil(self.now)",
        "given = math.ceil(self.wall)",
        DEVICE,
    ),
    Fault(
        "a no that makes rounds new",
        "client/ledger.py",
        '"update answer set report = null, sealed = null"',
        '"delete from answer"',
        DEVICE,
    ),
    Fault(
        "a clock that may be set back",
        "client/ledger.py",
        "self.now = self._clock",
        "self.now = self.wall",
        DEVICE,
    ),
    Fault(
        "a record that is read before it must be",
        "client/reporter.py",
        "        asked = self._asked(description)\n        report_id",
        "        self._read(held)\n        asked = self._asked(description)\n        report_id",
        DEVICE,
    ),
    Fault(
        "a sender that repeats what is refused",
        "client/answer.py",
        'return "refused" if 400 <= self.status < 500',
        "return None if 400 <= self.status < 500",
        ("client/test_sending.py",),
    ),
    Fault(
        "a log that quotes what was read",
        "client/receipt.py",
        "receipt.detail or receipt.message)",
        "receipt.reading and receipt.reading.words())",
        ("client/test_receipts.py",),
    ),
    Fault(
        "a spool that asks again",
        "cli/spool.py",
        ".rowcount == 1",
        ".rowcount >= 0",
        ("cli/test_spool.py",),
    ),
    Fault(
        "a key that is asked under another's code",
        "rounds.py",
        "return record if self.asked is None else record.among(self.asked)",
        "return record if self.asked is None else record.among(sorted(self.asked))",
        ("report", "client/test_vectors.py"),
    ),
    Fault(
        "a repeated report counted again",
        "collector/store/sqlite.py",
        "fresh = set(ids) - self.known_ids(campaign, ids)",
        "fresh = set(ids)",
        COLLECTOR,
    ),
    Fault(
        "a claim that does not look again after a flush",
        "collector/store/postgres.py",
        "if claimed and last != runs.last:",
        "if not claimed and last != runs.last:",
        ("collector/test_runs.py",),
    ),
    Fault(
        "a page of ids that is believed whatever its checksum",
        "collector/store/run_tables.py",
        "if page_crc(no, bytes(ids)) != crc:",
        "if page_crc(no, bytes(ids)) is None:",
        ("collector/test_runs.py",),
    ),
    Fault(
        "a round that takes more than its count",
        "collector/writing/commit.py",
        "if len(ids) <= room:",
        "if room > 0:",
        ("collector/test_rounds.py",),
    ),
    Fault(
        "a tally that forgets what was there",
        "collector/store/sqlite.py",
        "self.pending.sums[place] = counted if before is None else add(before, counted)",
        "self.pending.sums[place] = counted",
        COLLECTOR,
    ),
    Fault(
        "a report counted after the round's time",
        "collector/writing/commit.py",
        "is_open = row is not None and (row.closes_at is None or now < row.closes_at)",
        "is_open = row is not None",
        COLLECTOR,
    ),
    Fault(
        "a revoked token that still opens",
        "collector/writing/commit.py",
        "if upload.token is not None and upload.token not in live:",
        "if upload.token is not None and upload.token is live:",
        COLLECTOR,
    ),
    Fault(
        "a migration that forgets the ids of the last reports",
        "collector/store/migrations.py",
        'return b"".join(ids_in(reports, length))',
        'return b"".join(ids_in(reports, length)[:0])',
        ("collector/test_migrations.py",),
    ),
    Fault(
        "a stored round that is believed whatever its hash",
        "collector/campaigns/cache.py",
        "if (found.campaign, found.number, found.pin) != (known.id, row.number, row.pin):",
        "if (found.campaign, found.number) != (known.id, row.number):",
        ("collector/test_rounds.py", "collector/test_migrations.py", "collector/test_store.py"),
    ),
    Fault(
        "a token that opens other campaigns",
        "collector/tokens.py",
        "return self.campaign is None or self.campaign in (campaign, series)",
        "return True",
        COLLECTOR,
    ),
    Fault(
        "a wave that is opened for a clock in doubt",
        "collector/campaigns/calendar.py",
        "if number != known.number_at(clock.latest()):",
        "if number > known.number_at(clock.latest()):",
        ("collector/test_series.py",),
    ),
    Fault(
        "a wave that is opened after its series was paused",
        "collector/campaigns/calendar.py",
        "if row is None or (row.paused_at, row.ended_at) != (seen.paused_at, seen.ended_at):",
        "if row is None or row.ended_at != seen.ended_at:",
        ("collector/test_series.py",),
    ),
    Fault(
        "a wave that was given up for good",
        "collector/store/series_sql.py",
        "where waves.campaign is null and excluded.campaign is not null",
        "where waves.campaign is null and excluded.campaign is null",
        ("collector/test_series.py",),
    ),
    Fault(
        "a clock that was set right and is not looked at again",
        "collector/campaigns/calendar.py",
        "first = known.begins(number) if number else None",
        "first = None",
        ("collector/test_series.py",),
    ),
    Fault(
        "a late report that is refused",
        "collector/campaigns/cache.py",
        "ends + late if is_wave else ends",
        "ends",
        ("collector/test_series.py",),
    ),
    Fault(
        "an empty round that holds up the next wave's tick for ever",
        "collector/campaigns/running.py",
        "if self._is_over(known):",
        "if self._is_over(known) and not known.series:",
        ("collector/test_series.py",),
    ),
    Fault(
        "a wave that asks for keys of a later one",
        "collector/campaigns/cache.py",
        "for key in later if key.wave <= number",
        "for key in later if key.wave",
        ("collector/test_series.py",),
    ),
    Fault(
        "an ended series that opens its next wave",
        "collector/campaigns/calendar.py",
        "if row.ended_at is not None:",
        "if row.ended_at is None and row.due_at is None:",
        ("collector/test_series.py",),
    ),
    Fault(
        "a lost answer told as too late",
        "collector/writing/commit.py",
        "upload.mark((place,), DUPLICATE if name in counted else status)",
        "upload.mark((place,), status)",
        COLLECTOR,
    ),
    Fault(
        "an index of the device's choice where ids are issued",
        "mechanisms/base.py",
        "return 0 if self.issued else None",
        "return None",
        ("tally/test_public_word.py",),
    ),
    Fault(
        "an index that its id does not give is counted",
        "batch/partition.py",
        "follows[follows] = symbols // part.answers ==",
        "follows[follows] = symbols // part.answers + part.choices >",
        ("collector/test_ids.py",),
    ),
    Fault(
        "another id for whoever asks again",
        "collector/campaigns/ids.py",
        'asked = f"{token} {nonce.hex()}"',
        'asked = f"{token} {object()}"',
        ("collector/test_ids.py",),
    ),
    Fault(
        "the smaller bound where liars choose their index",
        "estimate/influence.py",
        "asked=1.0 if mechanism.issued else mechanism.expected_asked(1.0)",
        "asked=1.0",
        ("protocols/test_issued.py",),
    ),
    Fault(
        "every page is let in where one is",
        "collector/http/origins.py",
        "return origin if origin in self._allowed else None",
        "return origin",
        ("collector/test_origins.py",),
    ),
    Fault(
        "the straight way forgets who may read its answer",
        "collector/http/direct.py",
        '"pending": PageUpload}',
        '"pending": PendingUpload}',
        ("collector/test_origins.py",),
    ),
    Fault(
        "one key told of many pairs, taken for a record that was not cut",
        "plan/choice.py",
        "cut = Truncation(law=crowd.law, l=1)",
        "cut = Truncation(law=crowd.law, l=10**6)",
        ("plan/test_plan.py",),
    ),
    Fault(
        "a value asked for where only frequencies are wanted",
        "protocols/auto/settings.py",
        "return not self.tuning.choosing.own_keys",
        "return True",
        ("protocols/test_wants.py",),
    ),
    Fault(
        "the symbol of those who hold nothing taken for a key's",
        "protocols/auto/unbiased.py",
        '["support"][: alone.n_keys]',
        '["support"][1 : alone.n_keys + 1]',
        ("protocols/test_wants.py",),
    ),
    Fault(
        "a middle published for means of which nobody told anything",
        "protocols/auto/outcome.py",
        "mean = np.full_like(mean, np.nan)",
        "mean = np.zeros_like(mean)",
        ("protocols/test_wants.py",),
    ),
    Fault(
        "a version that shrinks the group of another",
        "protocols/auto/groups.py",
        "wanted = max(tuning.fewest_values, ",
        "wanted = max(0 * tuning.fewest_values, ",
        ("protocols/test_compared.py",),
    ),
    Fault(
        "two rounds compared the wrong way round",
        "protocols/auto/discover.py",
        ") < (\n        compare.one_round(",
        ") > (\n        compare.one_round(",
        ("protocols/test_compared.py",),
    ),
    Fault(
        "noise in empty classes believed",
        "estimate/sizes.py",
        "heard = np.clip(heard, 0.0, model.most_heard * users)",
        "heard = np.maximum(heard, 0.0)",
        ("protocols/test_compared.py",),
    ),
    Fault(
        "a round for very few, answered",
        "campaign.py",
        "if self.is_relayed and high - low < least:",
        "if not self.is_relayed and high - low < least:",
        ("client/test_rounds.py",),
    ),
    Fault(
        "a round for very few, carried",
        "relay/campaigns.py",
        'if error.code != "small-group":',
        "if True:",
        ("relay/test_path.py",),
    ),
    Fault(
        "a relay that keeps the order",
        "relay/batching.py",
        "order: list[int] = keys.argsort().tolist()",
        "order: list[int] = list(range(n))",
        RELAY,
    ),
    Fault(
        "a last batch that is too small",
        "relay/batching.py",
        "crowd.n_waiting if crowd.n_waiting >= round.batch else 0",
        "crowd.n_waiting",
        RELAY,
    ),
    Fault(
        "a batch that leaves too few behind",
        "relay/batching.py",
        "if crowd.n_waiting >= 2 * round.batch else 0",
        "if crowd.n_waiting > round.batch else 0",
        RELAY,
    ),
    Fault(
        "crowds of two keys taken for one",
        "relay/store.py",
        '"select no from sealed where round = ? and key = ?", (round, key)',
        '"select no from sealed where round = ? and ? = key or 1", (round, key)',
        RELAY,
    ),
    Fault(
        "a repeat that is carried twice",
        "relay/store.py",
        'if run("insert or ignore into digests values (?, ?)", (round, digest)).rowcount',
        'if run("insert or ignore into digests values (?, ?)", (round, digest))',
        RELAY,
    ),
    Fault(
        "a part that is forgotten before it is taken",
        "relay/forwarding.py",
        "if answer.status == 200:",
        "if True:",
        RELAY,
    ),
    Fault(
        "reports to any key",
        "relay/taking.py",
        "None if self._campaigns.takes_key(key) else",
        "None if True else",
        RELAY,
    ),
    Fault(
        "a batch as large as its relay says",
        "collector/campaigns/readout.py",
        "(batch.received, batch.counted)",
        "(batch.size, batch.counted)",
        ("collector/test_batches.py",),
    ),
    Fault(
        "reports that come directly beside a relay",
        "collector/http/intake.py",
        "if known.campaign.relay == REQUIRED:",
        "if False:",
        ("collector/test_batches.py",),
    ),
    Fault(
        "a series forgets that who answers is chance, too",
        "estimate/series/observations.py",
        "drawn = 0.0 if wave.moments is not None and wave.moments.drawn else 1.0",
        "drawn = 0.0",
        ("estimate/test_series.py",),
    ),
    Fault(
        "what a cut hides is lost by smoothing",
        "estimate/series/smooth.py",
        "return self.estimate - reach, self.estimate + reach + self.hidden",
        "return self.estimate - reach, self.estimate + reach",
        ("estimate/test_series.py",),
    ),
    Fault(
        "a segment that lasts costs no chance of having ended",
        "estimate/series/segments.py",
        "stays = self.goes_on * np.arange(b, -1, -1)[:, None, None] if b else 0.0",
        "stays = 0.0",
        ("estimate/test_series.py",),
    ),
    Fault(
        "a smoother that looks back without the drift",
        "estimate/series/segments.py",
        "ahead = variances[t] + drift",
        "ahead = variances[t]",
        ("estimate/test_series.py",),
    ),
    Fault(
        "steps corrected for keys and not for waves",
        "estimate/series/steps.py",
        "level = _level(seen, seen.n_waves - 1, false_alarms)",
        "level = _level(seen, 1, false_alarms)",
        ("estimate/test_series.py",),
    ),
    Fault(
        "changed since a wave, asked out of order",
        "estimate/series/steps.py",
        "changed = changed & (sums",
        "changed = _tested(seen) & (sums",
        ("estimate/test_series.py",),
    ),
    Fault(
        "a plan of a series that gives every answer all of epsilon",
        "plan/series.py",
        "return self.epsilon / self.answers",
        "return self.epsilon",
        ("plan/test_series.py",),
    ),
)


def is_caught(fault: Fault) -> bool:
    """Whether some test fails once the fault is in."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        target = source / "keyveil" / fault.file
        text = target.read_text(encoding="utf-8")
        if text.count(fault.right) != 1:
            sys.exit(f"{fault.name}: expected its text once in {fault.file}, found {text.count(fault.right)}")
        target.write_text(text.replace(fault.right, fault.wrong), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not nightly"]
        run = subprocess.run(
            [*command, *(str(ROOT / "tests" / folder) for folder in fault.folders)],
            env={**os.environ, "PYTHONPATH": str(source)},
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
    # 1: tests ran and failed. Anything else (usage, collection) is no catch but a broken script.
    if run.returncode not in (0, 1):
        sys.exit(f"{fault.name}: pytest could not run\n{run.stdout}{run.stderr}")
    return run.returncode == 1


def main() -> None:
    """Try every fault, two at a time, and say how many were caught."""
    caught = 0
    with ThreadPoolExecutor(max_workers=2) as pool:
        for fault, found in zip(FAULTS, pool.map(is_caught, FAULTS), strict=True):
            caught += found
            print(f"{'caught' if found else 'MISSED'}  {fault.name}", flush=True)
    print(f"{caught} of {len(FAULTS)} caught")
    sys.exit(caught != len(FAULTS))


if __name__ == "__main__":
    main()
