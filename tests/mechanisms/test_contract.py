"""Every registered mechanism keeps every promise; ids read `mechanism:check`."""

import pytest

from keyveil.mechanisms import REGISTRY
from keyveil.testing import CHECKS, EXEMPT


@pytest.mark.parametrize(
    ("mechanism_id", "check_name"),
    [pytest.param(m, c, id=f"{m}:{c}") for m in REGISTRY for c in CHECKS if (m, c) not in EXEMPT],
)
def test_mechanism_keeps_its_promise(mechanism_id, check_name):
    CHECKS[check_name](REGISTRY[mechanism_id])
