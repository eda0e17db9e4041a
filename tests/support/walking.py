"""A series walked through: a collector's clock goes from wave to wave, and made-up devices answer."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from collecting import Caller, make_question

from keyveil.batch import Block, InsecureSeededStream, Records, perturb_many, tally_partition
from keyveil.campaign import Campaign

DAY = 86400.0
LENGTHS = {"day": DAY, "week": 7 * DAY}


class Walk(Caller):
    """A collector in this process whose clock is set by hand, with one series that began some waves ago."""

    def __init__(self, store, campaign, *, every="week", waves=12, past=11.5, **terms):
        self.length, self.seed = LENGTHS[every], 0
        start = datetime.now(UTC).date() - timedelta(seconds=int(past) * self.length)
        self.began = datetime.combine(start, datetime.min.time(), UTC).timestamp()
        self.now = self.began
        super().__init__(store, clock=lambda: self.now)
        table = {"every": every, "waves": waves, "start": start.isoformat(), **terms.pop("series", {})}
        said = {**json.loads(campaign.canonical_json), "series": table}
        self.series = Campaign.from_said(said)
        made = self("POST", "/v1/series", token=self.admin, json_body={"campaign": said, "terms": terms})
        assert made.status == 201, made
        self.token = made.json["device_token"]

    def tick(self):
        self.collector.calendar.tick()
        self.collector.running.tick()

    def to(self, number):
        """An hour into a wave; what opens by then is open."""
        self.now = self.began + (number - 1) * self.length + 3600
        self.tick()

    def act(self, verb):
        answer = self("POST", f"/v1/series/{self.series.id}/{verb}", token=self.admin)
        assert answer.status == 200, answer

    def annotate(self, number, text):
        at = self.began + (number - 1) * self.length
        path = f"/v1/series/{self.series.id}/annotations"
        assert self("POST", path, token=self.admin, json_body={"at": at, "text": text}).status == 201

    def reports(self, number, shares, people, value=0.2):
        """Noised reports of people of whom each holds at most one key, with these chances."""
        wave, self.seed = self.series.wave(number), self.seed + 1
        rng = np.random.default_rng(self.seed)
        chances = np.append(shares, 1 - np.sum(shares))
        held = rng.choice(chances.size, size=people, p=chances)
        holds = held < len(shares)
        records = Records(
            offsets=np.concatenate([[0], np.cumsum(holds)]),
            codes=held[holds],
            values=np.full(int(holds.sum()), value),
        )
        asked = wave.only_round()
        return asked, perturb_many(
            asked.mechanism,
            records,
            tag=asked.tag,
            stream=InsecureSeededStream(self.seed),
            is_dithered=asked.is_dithered,
        )

    def answer(self, number, shares, people, **how):
        """Real uploads."""
        _, made = self.reports(number, shares, people, **how)
        wave, rows = self.series.wave(number), [row.tobytes() for row in made]
        for first in range(0, len(rows), 2000):
            said = self.send(wave, rows[first : first + 2000], token=self.token)
            assert set(said) == {"accepted"}, said

    def count(self, number, shares, people, **how):
        """More reports than a test has time to upload: they are counted, and their tally is stored."""
        asked, made = self.reports(number, shares, people, **how)
        lengths = np.full(len(made), made.shape[1], dtype=np.int64)
        block = Block(data=made.reshape(-1), starts=np.cumsum(lengths) - lengths, lengths=lengths)
        known = self.collector.known(self.series.wave(number).id)
        with self.collector.store.write() as tx:
            tx._set_tally(known.no, 1, tally_partition(asked, [block]).tally)


def stepping(n_keys, wave, after=8, key=2, low=0.05, high=0.12):
    """Shares that fall off with the key's place; one key steps after a wave."""
    shares = 0.7 / (np.arange(n_keys) + 2) / np.log(n_keys + 2)
    shares[key] = low if wave <= after else high
    return shares


def walked(store, work, campaign=None, **how):
    """Walk, and close the store, so that a process may serve it; the admin's token and the series' id.

    In a thread of its own: a browser's driver keeps an event loop in the one of the tests.
    """

    def walk():
        made = Walk(store, campaign or make_question(**QUESTION), **how)
        try:
            work(made)
            return made.admin, made.series.id
        finally:
            made.close()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(walk).result()


QUESTION = {
    "name": "minutes per app",
    "keys": ("messages", "camera", "chess", "maps", "mail", "browser", "radio", "news"),
    "value_range": (0.0, 120.0),
    "pairs_per_user": 1,
    "epsilon": 2.0,
    "unit": "minutes",
}


def store_in(folder: Path) -> str:
    return f"sqlite:///{folder}/series.db"
