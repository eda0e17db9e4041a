"""Integers that add, in any order, on any machine."""

from keyveil.tally.count import count, tally_reports
from keyveil.tally.tally import Tally

__all__ = ["Tally", "count", "tally_reports"]
