"""Every registered mechanism keeps every promise; ids read `mechanism:check`."""

import pytest

from keyveil.mechanisms import REGISTRY
from keyveil.testing import CHECKS, EXEMPT, checks

PROMISES = [pytest.param(m, c, id=f"{m}:{c}") for m in REGISTRY for c in CHECKS if (m, c) not in EXEMPT]
# What the gate tries on the smallest instances that show it.
THOROUGH = ("loss_is_within_epsilon", "sampler_is_kernel")


@pytest.mark.parametrize(("mechanism_id", "check_name"), PROMISES)
def test_mechanism_keeps_its_promise(mechanism_id, check_name):
    CHECKS[check_name](REGISTRY[mechanism_id])


@pytest.mark.nightly
@pytest.mark.parametrize("check_name", THOROUGH)
@pytest.mark.parametrize("mechanism_id", REGISTRY)
def test_mechanism_keeps_its_promise_on_larger_instances(mechanism_id, check_name, monkeypatch):
    monkeypatch.setattr(checks, "_LARGE", checks._LARGEST)
    monkeypatch.setattr(checks, "_BITS", (16,))
    CHECKS[check_name](REGISTRY[mechanism_id])
