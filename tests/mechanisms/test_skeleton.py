"""The file that newcomers copy works as it stands."""

from importlib import import_module
from pathlib import Path

from keyveil.mechanisms import registry
from keyveil.testing import check_mechanism

SKELETON = Path(__file__).parents[2] / "docs" / "skeletons" / "mechanism.py"


def test_the_skeleton_is_a_mechanism(monkeypatch):
    monkeypatch.syspath_prepend(SKELETON.parent)
    check_mechanism(import_module(SKELETON.stem).Skeleton)


def test_no_two_mechanisms_share_an_id():
    assert sorted(registry.REGISTRY) == sorted(cls.id for cls in registry._CLASSES)
