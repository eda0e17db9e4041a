"""`keyveil audit`: the epsilon that a mechanism really has."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from keyveil.audit import Certificate, Trial
    from keyveil.domain import Record
    from keyveil.mechanisms import Mechanism


@click.command()
@click.argument("mechanism")
@click.option("--epsilon", required=True, help="The budget that the mechanism must keep to.")
@click.option("--keys", type=int, required=True, help="How many keys there are.")
@click.option("--pairs-per-user", type=int, default=1, show_default=True, help="The padding length l.")
@click.option(
    "--trials", type=click.IntRange(min=0), default=0, help="Also draw this many reports of each record."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def audit(mechanism: str, epsilon: str, keys: int, pairs_per_user: int, trials: int, as_json: bool) -> None:
    """Certify MECHANISM: its exact privacy loss, from its integers, and the worst pair of records.

    With --trials the real sampler is put on trial too. Exit status 1 if a claim does not hold.
    """
    from keyveil.audit import certify
    from keyveil.mechanisms import build
    from keyveil.numerics import parse_epsilon

    budget = float(parse_epsilon(epsilon, where="--epsilon"))
    built = build(mechanism, budget, n_keys=keys, pairs_per_user=pairs_per_user)
    certificate = certify(built)
    trial = _try_out(built, certificate, trials) if trials else None
    bound = trial.epsilon_lower_bound if trial else None
    sound = certificate.epsilon <= budget and (bound is None or bound <= budget)
    facts: dict[str, Any] = {
        "mechanism": mechanism,
        "epsilon": budget,
        "epsilon_exact": certificate.epsilon,
        "epsilon_lower_bound": bound,
        "sound": sound,
        "worst_pair": _worst_pair(built, certificate),
        "method": certificate.method,
        "ratio": [str(certificate.ratio.numerator), str(certificate.ratio.denominator)],
    }
    if as_json:
        click.echo(json.dumps(facts, indent=2))
    else:
        _print(facts)
    sys.exit(0 if sound else 1)


def _try_out(mechanism: Mechanism, certificate: Certificate, trials: int) -> Trial:
    from keyveil.audit import try_out
    from keyveil.cli.console import progress

    with progress("drawing reports", 2 * trials) as advance:
        return try_out(mechanism, certificate.witness, trials, progress=advance)


def _worst_pair(mechanism: Mechanism, certificate: Certificate) -> dict[str, Any]:
    first, second, answer = certificate.witness
    said = {0: "absent", 1: "+", 2: "-", None: "not asked"}
    codes = sorted({pair.code for record in (first, second) for pair in record.pairs})
    return {
        "first": _in_clear(first),
        "second": _in_clear(second),
        "report": {f"key-{code}": said[mechanism.view(answer, code)] for code in codes},
    }


def _in_clear(record: Record) -> dict[str, float]:
    """A record made up by the auditor; nobody's secret."""
    return {f"key-{pair.code}": 1.0 if pair.level else -1.0 for pair in record.pairs}


def _print(facts: dict[str, Any]) -> None:
    from keyveil.cli.console import output, table

    worst = facts["worst_pair"]
    bound = facts["epsilon_lower_bound"]
    rows = [
        ("epsilon asked", f"{facts['epsilon']:g}"),
        ("epsilon exact", f"{facts['epsilon_exact']:.12f}"),
        ("how", facts["method"]),
        ("proved by draws", "not tried" if bound is None else f">= {bound:.4f} (99 %)"),
        ("sound", "yes" if facts["sound"] else "NO"),
        ("worst: one user holds", str(worst["first"] or "nothing")),
        ("another holds", str(worst["second"] or "nothing")),
        ("the report says", str(worst["report"])),
    ]
    made = table(facts["mechanism"], ("", ""), rows)
    made.columns[1].justify = "left"
    made.columns[1].no_wrap = False
    output().print(made)
