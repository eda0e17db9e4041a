"""The contract of a mechanism, shipped as checks."""

from keyveil.testing.checks import CHECKS, EXEMPT, Check, check_mechanism
from keyveil.testing.laws import Z, chi_square_z, tally_cell, tally_law

__all__ = ["CHECKS", "EXEMPT", "Check", "Z", "check_mechanism", "chi_square_z", "tally_cell", "tally_law"]
