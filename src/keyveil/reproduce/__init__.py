"""The papers' experiments, rerun with this code and put beside what the papers say."""

from keyveil.reproduce.experiments import PAPERS, Claim, Figure, Paper, load
from keyveil.reproduce.pages import Result, write_pages
from keyveil.reproduce.rerun import count_cells, rerun
from keyveil.reproduce.verdicts import ClaimVerdict, judge

__all__ = [
    "PAPERS",
    "Claim",
    "ClaimVerdict",
    "Figure",
    "Paper",
    "Result",
    "count_cells",
    "judge",
    "load",
    "rerun",
    "write_pages",
]
