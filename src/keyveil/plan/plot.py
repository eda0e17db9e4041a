"""The curve of a plan: the error of every candidate against the number of users."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from keyveil.palette import COLOURS
from keyveil.plan.crowd import Crowd
from keyveil.plan.predict import candidates
from keyveil.plan.solve import Plan


def write_curves(plan: Plan, crowd: Crowd, path: Path, *, at: float | None = None, top: int = 50) -> None:
    """Write an SVG of errors from a tenth to ten times the plan's users; the wanted error is dashed."""
    crowd = replace(crowd, users=plan.choice.users)
    users = np.unique(np.geomspace(max(10, crowd.users / 10), crowd.users * 10, 25).round()).astype(int)
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.subplots()
    ranked = candidates(plan.choice.epsilon, crowd, want=plan.want, at=at, top=top)
    for colour, candidate in zip(COLOURS, ranked, strict=False):
        errors = [candidate.error(replace(crowd, users=int(n)), plan.want, at, top) for n in users]
        label = f"{candidate.label}, l = {candidate.mechanism.pairs_per_user}"
        axes.plot(users, errors, color=colour, label=label)
    axes.plot([crowd.users], [plan.error], marker="o", color="black")
    if plan.wanted_error is not None:
        axes.axhline(plan.wanted_error, color="black", linestyle="--", linewidth=1, label="wanted")
    axes.set(xscale="log", yscale="log", xlabel="users", ylabel=f"error of {plan.want} (RMSE)")
    axes.set_title(f"epsilon {plan.choice.epsilon:g}, {crowd.n_keys:,} keys", fontsize="medium")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": "keyveil", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})
