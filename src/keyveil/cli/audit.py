"""`keyveil audit`: the epsilon that a mechanism really has, over all its rounds."""

from __future__ import annotations

import json
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from keyveil.cli.settings import set_option

if TYPE_CHECKING:
    from keyveil.audit import ProtocolCertificate
    from keyveil.domain import Record

# A report about a million keys says too much to print.
_SHOWN = 12


@click.command()
@click.argument("mechanism")
@click.option("--epsilon", required=True, help="The budget that the mechanism must keep to.")
@click.option("--keys", type=int, required=True, help="How many keys there are.")
@click.option("--pairs-per-user", type=int, default=1, show_default=True, help="The padding length l.")
@click.option(
    "--trials", type=click.IntRange(min=0), default=0, help="Also draw this many reports of each record."
)
@set_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def audit(
    mechanism: str,
    epsilon: str,
    keys: int,
    pairs_per_user: int,
    trials: int,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Certify MECHANISM: its exact privacy loss over all its rounds, and the worst pair of records.

    With --trials the real sampler of every round is put on trial too. Exit status 1 if a claim does
    not hold.
    """
    from keyveil.audit import certify_protocol
    from keyveil.numerics import parse_epsilon
    from keyveil.protocols import build_protocol, parse_options

    budget = float(parse_epsilon(epsilon, where="--epsilon"))
    protocol = build_protocol(
        mechanism, budget, n_keys=keys, pairs_per_user=pairs_per_user, **parse_options(settings)
    )
    certificate = certify_protocol(protocol)
    bound = _proved(certificate, trials) if trials else None
    facts: dict[str, Any] = {
        "mechanism": mechanism,
        "epsilon": budget,
        "epsilon_exact": certificate.epsilon,
        "epsilon_lower_bound": bound,
        "sound": certificate.epsilon <= budget and (bound is None or bound <= budget),
        "worst_pair": _worst_pair(certificate),
        "method": certificate.method,
        "ratio": [str(certificate.ratio.numerator), str(certificate.ratio.denominator)],
        "rounds": [
            {
                "purpose": stage.purpose,
                "group": [float(end) for end in stage.group],
                "epsilon_exact": own.epsilon,
                "method": own.method,
            }
            for stage, own in certificate.stages
        ],
    }
    if as_json:
        click.echo(json.dumps(facts, indent=2))
    else:
        _print(facts)
    sys.exit(0 if facts["sound"] else 1)


def _proved(certificate: ProtocolCertificate, trials: int) -> float:
    """What draws prove about each round, added up at the place that meets the most."""
    from keyveil.audit import try_out
    from keyveil.cli.console import progress

    proved = []
    with progress("drawing reports", 2 * trials * len(certificate.stages)) as advance:
        for stage, own in certificate.stages:
            trial = try_out(stage.mechanism, own.witness, trials, progress=advance)
            proved.append((stage.group, trial.epsilon_lower_bound))
    places = {group[0] for group, _ in proved}
    return max(sum(bound for group, bound in proved if group[0] <= place < group[1]) for place in places)


def _worst_pair(certificate: ProtocolCertificate) -> dict[str, Any]:
    """The worst pair of the round that loses most, and the cells to which its report adds one."""
    stage, own = max(certificate.stages, key=lambda stage: stage[1].ratio)
    said = (tick for tick in stage.mechanism.ticks(own.witness.answer) if tick[0] != "asked")
    return {
        "first": _in_clear(own.witness.first),
        "second": _in_clear(own.witness.second),
        "report": [f"{name} {'.'.join(map(str, place))}" for name, place in islice(said, _SHOWN)],
    }


def _in_clear(record: Record) -> dict[str, float]:
    """A record made up by the auditor; nobody's secret."""
    return {f"key-{pair.code}": 1.0 if pair.level else -1.0 for pair in record.pairs}


def _print(facts: dict[str, Any]) -> None:
    from keyveil.cli.console import output, table

    worst, bound = facts["worst_pair"], facts["epsilon_lower_bound"]
    rows = [
        ("epsilon asked", f"{facts['epsilon']:g}"),
        ("epsilon exact", f"{facts['epsilon_exact']:.12f}"),
        ("how", facts["method"]),
        ("proved by draws", "not tried" if bound is None else f">= {bound:.4f} (99 % a round)"),
        ("sound", "yes" if facts["sound"] else "NO"),
        ("worst: one user holds", str(worst["first"] or "nothing")),
        ("another holds", str(worst["second"] or "nothing")),
        ("the report says", ", ".join(worst["report"]) or "nothing"),
    ]
    if len(facts["rounds"]) > 1:
        rows += [
            (f"round {number}", f"{one['epsilon_exact']:.6f}  {one['purpose']}")
            for number, one in enumerate(facts["rounds"], start=1)
        ]
    output().print(table(facts["mechanism"], ("", ""), rows, prose=[1]))
