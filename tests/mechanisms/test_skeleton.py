"""The file that newcomers copy works as it stands."""

from importlib import import_module
from pathlib import Path

from keyveil.mechanisms import registry
from keyveil.testing import check_mechanism

SKELETON = Path(__file__).parents[2] / "docs" / "skeletons" / "mechanism.py"


def test_the_skeleton_is_a_mechanism(monkeypatch):
    monkeypatch.syspath_prepend(SKELETON.parent)
    check_mechanism(import_module(SKELETON.stem).Skeleton)


def test_every_mechanism_is_found_under_its_own_id():
    assert all(cls.id == mechanism_id for mechanism_id, cls in registry.NAMED.items())
    assert set(registry.REGISTRY) < set(registry.NAMED)
    assert len(set(registry.NAMED.values())) == len(registry.NAMED)
