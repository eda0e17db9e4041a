"""Run the contract's checks on a mechanism that nothing else knows yet, and say how far they came.

python scripts/try_mechanism.py keyveil.mechanisms.trits.ks_ue:KsUe
"""

from __future__ import annotations

import sys
from importlib import import_module

from keyveil.numerics import epsilon_above
from keyveil.testing import CHECKS, EXEMPT


def main(name: str) -> int:
    """Print the kernel at four budgets, then every check; the number of those that failed."""
    module, _, of_class = name.partition(":")
    try:
        cls = getattr(import_module(module), of_class)
    except (ModuleNotFoundError, AttributeError, ValueError) as error:
        sys.exit(f'expected MODULE:CLASS, as keyveil.mechanisms.trits.ks_ue:KsUe, got "{name}": {error}')
    for epsilon in (0.5, 1, 2, 4):
        mechanism = cls.for_epsilon(epsilon, n_keys=100)
        a, b = (round(float(chance), 6) for chance in (mechanism.a, mechanism.b))
        channel = getattr(mechanism, "channel", None)
        p = f"  p {float(channel.p):.6f}" if hasattr(channel, "p") else ""
        print(f"epsilon {epsilon:<4} exact {epsilon_above(mechanism.loss):.6f}  a {a}  b {b}{p}")
    failed = 0
    for check_name, check in CHECKS.items():
        try:
            said = EXEMPT.get((cls.id, check_name)) or check(cls) or "holds"
        except AssertionError as error:
            said, failed = f"FAILS: {error}", failed + 1
        print(f"{check_name:28}{said}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) > 0)
