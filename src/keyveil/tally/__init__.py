"""Integers that add, in any order, on any machine."""

from keyveil.tally.count import count, tally_reports
from keyveil.tally.packed import Packed, refusals
from keyveil.tally.tally import Tally

__all__ = ["Packed", "Tally", "count", "refusals", "tally_reports"]
