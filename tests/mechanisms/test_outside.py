"""Mechanisms of other packages (U20): by entry point, checked like our own, never at a collector's word."""

import json
import subprocess
import sys
import textwrap

import pytest

from keyveil.errors import MechanismError
from keyveil.mechanisms import REGISTRY, find, find_outside, register

MODULE = '''
"""A mechanism of another package: grr, whose contract is checked soonest, under a name of its own."""

from typing import ClassVar

from keyveil.mechanisms.symbol.keys_only import Grr


class AcmeGrr(Grr):
    """One symbol, by Acme."""

    __slots__ = ()
    id: ClassVar[str] = "acme-grr"
'''

PATH = """
import json
from keyveil import Campaign
from keyveil.client import Reporter
from keyveil.errors import DescriptionError
from keyveil.mechanisms.registry import named_class
assert named_class("acme-grr") is None, "nothing is loaded before somebody asks"
from keyveil.mechanisms.named import calibrated
try:
    calibrated({"id": "acme-grr", "epsilon": "1", "pairs_per_user": 1}, 3)
except DescriptionError as error:
    assert error.code == "unknown-mechanism", "no collector's word loads anything"
campaign = Campaign(name="x", epsilon=4.0, keys=("a", "b", "c"), value_range=(0, 1), pairs_per_user=1,
                    mechanism="acme-grr")
device = Reporter(campaign)
release = campaign.estimate(campaign.tally([device.report({"a": 1.0}) for _ in range(2000)]))
from keyveil.testing import check_mechanism
from keyveil.mechanisms import find
check_mechanism(find("acme-grr")[0])
a, b, c = release.rows()
said = release.metadata["mechanism"]
print(json.dumps({"a": a["frequency_raw"], "error": a["frequency_se"], "mechanism": said}))
"""


@pytest.fixture
def installed(tmp_path):
    """A folder in which a package with an entry point is installed."""
    (tmp_path / "acme_keyveil.py").write_text(textwrap.dedent(MODULE))
    info = tmp_path / "acme_keyveil-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-keyveil\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[keyveil.mechanisms]\nacme-grr = acme_keyveil:AcmeGrr\n")
    return tmp_path


def test_a_mechanism_from_outside_goes_the_whole_path(installed):
    shown = subprocess.run(
        [sys.executable, "-c", PATH], capture_output=True, text=True, env={"PYTHONPATH": str(installed)}
    )
    assert shown.returncode == 0, shown.stderr
    found = json.loads(shown.stdout)
    assert found["mechanism"] == "acme-grr"
    # Six standard errors: the noise is the operating system's.
    assert abs(found["a"] - 1) < 6 * found["error"]


def test_an_entry_point_that_cannot_be_loaded_is_named(installed):
    (installed / "acme_keyveil.py").write_text("import nowhere_to_be_found\n")
    shown = subprocess.run(
        [sys.executable, "-c", "from keyveil.mechanisms import find; find('acme-grr')"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(installed)},
    )
    assert (
        '"acme-grr" comes from acme_keyveil:AcmeGrr, which cannot be loaded: ModuleNotFoundError'
        in shown.stderr
    )


def test_ids_are_kept_apart():
    assert find_outside("nobody-knows-it") is None
    with pytest.raises(MechanismError, match="unknown mechanism"):
        find("nobody-knows-it")
    with pytest.raises(MechanismError, match="is the id of another mechanism"):
        register(type("Mine", (REGISTRY["kvue"],), {"__slots__": (), "id": "privkv"}))
    for wrong in (int, "kvue", type("Mine", (REGISTRY["kvue"],), {"__slots__": (), "id": "With Spaces"})):
        with pytest.raises(MechanismError, match="expected a subclass"):
            register(wrong)
