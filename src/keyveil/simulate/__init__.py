"""Exact, fast simulation of whole populations: data, tally laws, metrics, experiments.

`read_pairs` and the demo's population live in `simulate.pairs` and `simulate.apps`, because only
they need more than numpy.
"""

import keyveil.simulate.literature  # noqa: F401  # registers what it knows
from keyveil.simulate.coverage import Coverage, coverage
from keyveil.simulate.experiment import Cell, run
from keyveil.simulate.laws import draw_tally, perturb_all
from keyveil.simulate.metrics import Errors, Truth, measure, ncr, top_keys
from keyveil.simulate.play import play
from keyveil.simulate.population import Population, insecure_generator, synthetic
from keyveil.simulate.series import play_series

__all__ = [
    "Cell",
    "Coverage",
    "Errors",
    "Population",
    "Truth",
    "coverage",
    "draw_tally",
    "insecure_generator",
    "measure",
    "ncr",
    "perturb_all",
    "play",
    "play_series",
    "run",
    "synthetic",
    "top_keys",
]
