"""`keyveil attack`: what somebody hostile could do to, or learn from, your own campaign."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyveil.errors import DomainError, MechanismError, TallyError

if TYPE_CHECKING:
    from keyveil.attack import Attempt, Counted
    from keyveil.audit.reports import Verdict
    from keyveil.campaign import Campaign
    from keyveil.mechanisms import Mechanism
    from keyveil.simulate.answers import Answers

KINDS = ("averaging", "poisoning", "replay", "reconstruction", "segments", "linking")


@click.command()
@click.argument("campaign", type=click.Path(path_type=Path))
@click.option("--kind", type=click.Choice(KINDS), multiple=True, help="Which attacks; all if left out.")
@click.option("--share", type=float, default=0.01, show_default=True, help="Hostile devices among all.")
@click.option("--targets", help="Keys to aim at, separated by commas; the last one if left out.")
@click.option(
    "--reports",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Files of real reports to attack, and to test for an attack; simulated ones if left out.",
)
@click.option(
    "--users", type=click.IntRange(min=1), default=20_000, show_default=True, help="Simulated honest devices."
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Repeats the same draws."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def attack(
    campaign: Path,
    kind: tuple[str, ...],
    share: float,
    targets: str | None,
    reports: tuple[Path, ...],
    users: int,
    seed: int,
    as_json: bool,
) -> None:
    """Attack CAMPAIGN and print what succeeded, beside the most that theory allows.

    Nothing is sent: honest reports are simulated, or read from --reports, and hostile ones are added here.
    Every round of a campaign of several rounds is attacked by itself. Means are in the campaign's units.
    """
    from keyveil.campaign import Campaign
    from keyveil.estimate.influence import check_share
    from keyveil.shuffle import shuffled

    check_share(share)
    asked = Campaign.load(campaign)
    aims = _codes(asked, targets)
    stages = asked.protocol().stages()
    if reports and asked.has_several_rounds:
        raise TallyError(
            f'"{asked.mechanism}" has several rounds and a file of reports holds one; leave --reports out'
        )
    main = max(stages, key=lambda stage: stage.size)
    attempts: list[Attempt] = []
    refused: list[str] = []
    verdict: Verdict | None = None
    for stage in stages:
        prefix = f"{stage.purpose}: " if len(stages) > 1 else ""
        for each in kind or _meant(asked):
            if each in ("averaging", "reconstruction", "segments", "linking") and stage is not main:
                continue
            try:
                crowd = math.ceil(users * _smallest(asked)) if each == "segments" else users
                honest, answers = _honest(asked, stage.mechanism, reports, crowd, seed, each)
                if reports and honest is not None and each != "segments":
                    verdict = _judged(stage.mechanism, honest)
                tried = _tried(asked, stage.mechanism, each, honest, answers, share, aims, seed)
                attempts += [_named(asked, one, prefix, len(stages) > 1) for one in tried]
            except MechanismError as error:
                refused.append(f"{prefix}{each}, because {error}")
    if not attempts:
        raise MechanismError(refused[0])
    hidden = shuffled(main.mechanism, max(2, users))
    if as_json:
        facts: dict[str, Any] = {
            "campaign": asked.id,
            "mechanism": asked.mechanism,
            "epsilon": asked.epsilon,
            "share": share,
            "targets": [asked.domain.names[code] for code in aims],
            "attacks": [each.to_fields() for each in attempts],
            "not_defined": refused,
            "verdict": None if verdict is None else {"alarm": verdict.alarm, "p": verdict.p},
            "shuffled": hidden._asdict(),
        }
        click.echo(json.dumps(facts, indent=2))
    else:
        _print(asked, attempts, refused, verdict, share)
        click.echo(
            f"- if {hidden.users:,} reports are anonymised and shuffled: central epsilon {hidden.best:.2g} "
            f"at delta {hidden.delta:g}"
        )


def _meant(campaign: Campaign) -> tuple[str, ...]:
    """The attacks that a campaign gives a reason for."""
    unmeant = {"segments": not campaign.clear_labels, "linking": not campaign.is_relayed}
    return tuple(kind for kind in KINDS if not unmeant.get(kind))


def _smallest(campaign: Campaign) -> float:
    """The part of the users in a segment of the attribute with the most values, were all as large."""
    if not campaign.clear_labels:
        raise MechanismError("no label is in the clear")
    return 1 / (1 + max(campaign.clear_labels))


def _codes(campaign: Campaign, targets: str | None) -> tuple[int, ...]:
    """The codes of the keys to aim at."""
    if targets is None:
        return (campaign.domain.n_keys - 1,)
    names = list(campaign.domain.names)
    for name in targets.split(","):
        if name not in names:
            raise DomainError(f'expected a key of the campaign in --targets, got "{name[:40]}"')
    return tuple(names.index(name) for name in targets.split(","))


def _honest(
    campaign: Campaign,
    mechanism: Mechanism,
    reports: Iterable[Path],
    users: int,
    seed: int,
    kind: str,
) -> tuple[Counted | None, Answers | None]:
    """Real reports, or those of a simulated crowd; neither where no attack needs them."""
    from keyveil.attack import Counted
    from keyveil.simulate import insecure_generator, synthetic
    from keyveil.simulate.answers import draw_answers

    if kind not in ("poisoning", "replay", "segments"):
        return None, None
    if reports and kind != "segments":
        answers = _read(campaign, mechanism, reports)
    else:
        if mechanism.n_keys * users > MOST_POSITIONS:
            users = max(1000, MOST_POSITIONS // mechanism.n_keys)
        most = min(campaign.pairs_per_user, mechanism.n_keys)
        people = synthetic(users=users, keys=mechanism.n_keys, pairs_per_user=most, seed=seed)
        try:
            answers = draw_answers(mechanism, people, insecure_generator(seed, 2))
        except TypeError:
            raise MechanismError("none is defined for a round that speaks of no single key") from None
    return Counted.of(mechanism, answers), answers


# Positions of simulated reports that are held at once.
MOST_POSITIONS = 1 << 28


def _read(campaign: Campaign, mechanism: Mechanism, paths: Iterable[Path]) -> Answers:
    from keyveil.cli.files import Reports
    from keyveil.report import HEADER_BYTES
    from keyveil.tally.trace import decode_many

    found = list(Reports(campaign, paths))
    if not found:
        raise TallyError("a campaign without reports cannot be attacked; the files hold none")
    campaign.tally(found)  # refuses what is no report of this campaign
    end = HEADER_BYTES + mechanism.layout.n_bytes
    return decode_many(mechanism.layout, [report[HEADER_BYTES:end] for report in found])


def _judged(mechanism: Mechanism, honest: Counted) -> Verdict:
    from keyveil.audit.reports import examine

    return examine(mechanism, honest.trace, honest.tally)


def _tried(
    campaign: Campaign,
    mechanism: Mechanism,
    kind: str,
    honest: Counted | None,
    answers: Answers | None,
    share: float,
    aims: tuple[int, ...],
    seed: int,
) -> Iterator[Attempt]:
    """All attempts of one kind."""
    from keyveil.attack import averaging, poisoning, reconstruction, replay, segments
    from keyveil.simulate import insecure_generator

    if kind == "averaging":
        yield from averaging(mechanism, seed=seed)
    if honest is not None and kind == "poisoning":
        aims = tuple(min(code, mechanism.n_keys - 1) for code in aims)
        yield from poisoning(mechanism, honest, share, aims, insecure_generator(seed, 1))
    if honest is not None and answers is not None and kind == "replay":
        yield from replay(mechanism, honest, answers[0], share, tag=campaign.tag)
    if honest is not None and kind == "segments":
        aims, part = tuple(min(code, mechanism.n_keys - 1) for code in aims), _smallest(campaign)
        yield from segments(mechanism, honest, share, part, aims, insecure_generator(seed, 3), seed=seed)
    if kind == "reconstruction":
        yield reconstruction(mechanism, seed=seed)
    if kind == "linking":
        if not campaign.is_relayed:
            raise MechanismError("no relay carries this campaign: its collector sees who sends what")
        from keyveil.relay.linking import linking

        yield from linking(campaign, seed=seed)


def _named(campaign: Campaign, attempt: Attempt, prefix: str, renumbered: bool) -> Attempt:
    """Codes become names, unless a round asks about keys that are not known yet; means get their units."""
    about, (low, high) = attempt.about, campaign.domain.value_range
    if attempt.unit == "mean":
        scale = (high - low) / 2
        attempt = replace(attempt, success=scale * attempt.success, bound=scale * attempt.bound)
    if about and not renumbered:
        about = campaign.domain.names[int(about)]
    elif about:
        about = f"key {int(about) + 1} of the round"
    return replace(attempt, name=f"{prefix}{attempt.name}", about=about)


def _print(
    campaign: Campaign, attempts: list[Attempt], refused: list[str], verdict: Verdict | None, share: float
) -> None:
    from keyveil.cli.console import output, table

    console = output()
    columns = ("attack", "on", "success", "at most", "of", "detected")
    rows = [
        (
            each.name,
            each.about or "-",
            f"{each.success:.3g}",
            f"{each.bound:.3g}",
            each.unit,
            "-" if each.alarm is None else "yes" if each.alarm else "no",
        )
        for each in attempts
    ]
    title = f'"{campaign.name}" by {campaign.mechanism} at epsilon {campaign.epsilon:g}'
    console.print(table(title, columns, rows, prose=[1]))
    gains = [each for each in attempts if each.name.endswith(("maximal gain", "mean up", "mean down"))]
    for each in gains:
        what = "frequency" if each.unit == "frequency" else f"mean ({each.name.rpartition(' ')[2]})"
        console.print(
            f'- {share:.2%} hostile devices can move the {what} of "{each.about}" by at most {each.bound:.3g}'
            + ("; here they were seen" if each.alarm else "; here nobody would have seen it")
        )
    for sentence in refused:
        console.print(f"- not tried: {sentence}")
    if verdict is not None:
        odd = f"; {verdict.findings[0].what}" if verdict.alarm else ""
        said = (
            "do NOT look like honest noise" if verdict.alarm else "show no sign of an attack that can be seen"
        )
        console.print(f"- the reports themselves {said} (p = {verdict.p:.2g}{odd})")
    console.print(
        "- adaptive attacks that imitate the noise cannot be detected, only bounded: docs/limits.md"
    )
