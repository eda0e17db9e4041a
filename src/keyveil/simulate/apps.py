"""The demo's population: ten thousand people, fifty apps, minutes of use a day.

Invented, with two honest habits of real data: popularity falls off steeply, and how long an app is
used has little to do with how many use it.
"""

from __future__ import annotations

import numpy as np

from keyveil.simulate.population import insecure_generator

APPS = tuple(
    """
    messages camera mail maps browser calendar weather clock photos music notes wallet podcasts news
    video translate fitness contacts files calculator bank train books shopping recipes chess radio
    scanner taxi bus sleep tickets recorder reader garden puzzle sudoku language museum tides compass
    budget knitting birds telescope metronome chords genealogy origami seismograph
    """.split()  # noqa: SIM905  (fifty quoted words read worse)
)
LONGEST = 120.0
USUAL_APPS = 3


def app_minutes(users: int = 10_000, seed: int = 2026) -> list[dict[str, float]]:
    """What each person used yesterday, and for how many minutes (0 to 120).

    >>> people = app_minutes(users=3)
    >>> len(people), all(name in APPS for person in people for name in person)
    (3, True)
    """
    rng = insecure_generator(seed)
    popularity = 1.0 / (np.arange(len(APPS)) + 1.5)
    popularity /= popularity.sum()
    usual = rng.gamma(2.0, 18.0, len(APPS))
    people = []
    for size in rng.integers(0, USUAL_APPS + 1, users):
        apps = rng.choice(len(APPS), size=size, replace=False, p=popularity)
        minutes = np.minimum(rng.gamma(3.0, usual[apps] / 3.0), LONGEST)
        people.append({APPS[app]: float(spent) for app, spent in zip(apps, minutes, strict=True)})
    return people
