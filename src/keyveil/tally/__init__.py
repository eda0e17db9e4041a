"""Integers that add, in any order, on any machine."""

import keyveil.tally.literature  # noqa: F401  # registers what it knows
from keyveil.tally.count import Counter, count, tally_reports
from keyveil.tally.payloads import Payloads
from keyveil.tally.tally import Tally
from keyveil.tally.trace import trace, trace_answers

__all__ = ["Counter", "Payloads", "Tally", "count", "tally_reports", "trace", "trace_answers"]
