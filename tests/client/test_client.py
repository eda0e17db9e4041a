import random
import subprocess
import sys

import pytest

from keyveil import Campaign
from keyveil.client import Reporter
from keyveil.errors import EntropyError
from keyveil.mechanisms import REGISTRY
from keyveil.methods import has_several_rounds
from keyveil.numerics import InsecureSeededEntropy, system_entropy


def campaign(mechanism):
    return Campaign(
        name="apps",
        epsilon=1.0,
        keys=tuple(f"app-{i}" for i in range(40)),
        value_range=(0, 60),
        pairs_per_user=3,
        mechanism=mechanism,
    )


def test_importing_the_client_loads_the_standard_library_and_keyveil_alone():
    code = (
        "import sys; before = set(sys.modules); import keyveil.client; "
        "print(*sorted({m.partition('.')[0] for m in set(sys.modules) - before}))"
    )
    loaded = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    ).stdout
    strangers = set(loaded.split()) - set(sys.stdlib_module_names) - {"keyveil"}
    assert "keyveil" in loaded
    assert not strangers
    # What only a request, a file or a coroutine needs is loaded with the first of them.
    assert not {"asyncio", "argparse", "email", "http", "ssl", "tomllib"} & set(loaded.split())


@pytest.mark.parametrize("mechanism", [m for m in ("privkv-em", *REGISTRY) if not has_several_rounds(m)])
def test_every_record_takes_the_same_words_and_makes_the_same_length(mechanism):
    drawn = []

    def counting(n_words):
        drawn.append(n_words)
        return system_entropy(n_words)

    reporter = Reporter(campaign(mechanism), entropy=counting)
    odd = [{}, {"app-3": 1.0}, {"unknown": 5.0}, {"app-1": float("nan")}, {f"app-{i}": i for i in range(40)}]
    lengths = {len(reporter.report(held)) for held in (*odd, *random_records(1000))}
    assert len(lengths) == 1
    assert len(set(drawn)) == 1
    assert len(drawn) == 1005


def random_records(count):
    rng = random.Random(6)
    for _ in range(count):
        keys = rng.sample(range(60), rng.choice((0, 1, 2, 3, 10, 40, 60)))
        yield {f"app-{key}": rng.choice((0.0, 60.0, rng.uniform(-99, 99), float("inf"))) for key in keys}


def test_seeded_entropy_is_refused_on_a_device():
    with pytest.raises(EntropyError, match="must not draw repeatable noise"):
        Reporter(campaign("pckv-ue"), entropy=InsecureSeededEntropy(1))


def test_reports_differ_every_time():
    reporter = Reporter(campaign("pckv-ue"))
    assert len({reporter.report({"app-1": 3.0}) for _ in range(50)}) == 50
