"""The averaging attack: a year of daily questions at epsilon 1, with fresh noise and with a ledger.

    python bench/averaging.py        prints the curve and rewrites bench/results/averaging.json

One key is asked about, half of the people hold it, and the mechanism is the one whose single report
tells most: `grr` with one key is randomized response, right with e / (1 + e) = 73.1 %. The attacker
knows the kernel and every report, and guesses what the majority of a device's reports say. Fresh noise
is drawn from the kernel's own integers; the ledger's devices are real `Reporter`s that are asked every
day and whose data change every day, and the first answers behind their accuracy are drawn by the real
client, one per person.
"""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path

import numpy as np

from keyveil import Campaign
from keyveil.client import Reporter
from keyveil.report import HEADER_BYTES
from keyveil.simulate import insecure_generator

RESULTS = Path(__file__).parent / "results" / "averaging.json"
PEOPLE, DAYS, DEVICES = 200_000, 365, 10
SHOWN = (1, 2, 5, 10, 20, 30, 60, 90, 180, 365)

QUESTION = Campaign(
    name="averaging", epsilon=1.0, keys=("it",), value_range=(0, 1), pairs_per_user=1, mechanism="grr"
)
YES, NO = {"it": 1.0}, {}


def fresh_accuracy(people: int, days: int, seed: int) -> list[float]:
    """How often the majority of fresh reports is right, day by day; ties are guessed."""
    mechanism = QUESTION.build()
    says_yes = [float(mechanism.probability(0, QUESTION.domain.encode(held))) for held in (NO, YES)]
    rng = insecure_generator(seed)
    holds = np.arange(people) % 2
    votes = np.zeros(people, dtype=np.int64)
    right = []
    for day in range(1, days + 1):
        votes += rng.random(people) < np.array(says_yes)[holds]
        lead = 2 * votes - day
        right.append(float(np.mean(np.where(lead == 0, 0.5, (lead > 0) == (holds == 1)))))
    return right


def memoised_accuracy(people: int) -> float:
    """How often the one answer that a device ever gives is right; every later day repeats it."""
    reporter = Reporter(QUESTION)
    right = sum(
        (reporter.report(YES if person % 2 else NO)[HEADER_BYTES] == 0) == bool(person % 2)
        for person in range(people)
    )
    return right / people


def different_answers(devices: int, days: int) -> tuple[int, float]:
    """The most answers that a device with a ledger gave in so many days, and the epsilon it spent."""
    most, spent = 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for device in range(devices):
            path = Path(folder) / f"{device}.db"
            # A new reporter every day, as after a restart, and something else that is true.
            said = {
                Reporter(QUESTION, ledger=path).report(YES if (device + day) % 2 else NO)
                for day in range(days)
            }
            most = max(most, len(said))
            spent = max(spent, Reporter(QUESTION, ledger=path).status().epsilon_lifetime)
    return most, spent


def main() -> None:
    """The curve, and what the ledger makes of it."""
    fresh = fresh_accuracy(PEOPLE, DAYS, seed=6)
    memoised = memoised_accuracy(PEOPLE)
    most, spent = different_answers(DEVICES, DAYS)
    result = {
        "epsilon": QUESTION.epsilon,
        "people": PEOPLE,
        "standard_error": math.sqrt(0.731 * 0.269 / PEOPLE),
        "bound": math.e / (1 + math.e),
        "fresh": {str(day): round(fresh[day - 1], 5) for day in SHOWN},
        "fresh_passes_99_percent_on_day": next(day for day, share in enumerate(fresh, 1) if share > 0.99),
        "memoised": {str(day): memoised for day in SHOWN},
        "devices_with_ledger": DEVICES,
        "most_different_answers_in_a_year": most,
        "epsilon_spent_in_a_year": spent,
    }
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print("day   fresh noise   memoised")
    for day in SHOWN:
        print(f"{day:>3}   {100 * fresh[day - 1]:10.2f}%  {100 * memoised:8.2f}%")
    print(f"a ledger gave {most} answer in {DAYS} days and spent epsilon {spent:g}")


if __name__ == "__main__":
    main()
