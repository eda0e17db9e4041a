"""What is integer is the same on every processor; floats agree to 1e-12.

numpy's linear algebra picks its kernels by the processor, and sums in another order differ in the last bits.
The same collection is estimated here under two of them, each in a process of its own.
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

KERNELS = ("Prescott", "Haswell")
SCRIPT = """
import json, sys
import numpy as np
from keyveil.protocols import build_protocol
from keyveil.simulate import insecure_generator, play, synthetic
from keyveil.protocols import Round
from keyveil.simulate.play import _answers

name, users, keys, pairs = json.loads(sys.argv[1])
people = synthetic(users=users, keys=keys, pairs_per_user=pairs, seed=3)
known = {"users": users} if name == "auto" else {}
protocol = build_protocol(name, 2, n_keys=keys, pairs_per_user=pairs, **known)
rng = insecure_generator(5)
places, step, history = rng.random(people.n_users), protocol.start("ab" * 32), []
while isinstance(step, Round):
    history.append((step, _answers(step, people, places, rng)))
    step = protocol.next(history)
integers = [
    [round.canonical_json, tally.n_reports, {name: cells.tolist() for name, cells in tally.cells.items()}]
    for round, tally in history
]
floats = [
    np.nan_to_num(column, posinf=9.0).tolist()
    for each in (step.raw, step.published)
    for column in (each.frequency, each.frequency_se, each.mean, *each.frequency_interval())
]
print(json.dumps([integers, floats]))
"""


def estimated(kernel, *case):
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(case)],
        env={**os.environ, "OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(run.stdout)


@pytest.mark.parametrize(
    "case", [("auto", 20_000, 600, 8), ("auto", 20_000, 40, 3), ("ue-sw", 5_000, 12, 2)], ids=str
)
def test_integers_are_the_same_and_floats_agree_to_twelve_digits(case):
    (integers, floats), (other_integers, other_floats) = (estimated(kernel, *case) for kernel in KERNELS)
    assert integers == other_integers
    for one, other in zip(floats, other_floats, strict=True):
        assert np.allclose(one, other, rtol=1e-12, atol=1e-12)
