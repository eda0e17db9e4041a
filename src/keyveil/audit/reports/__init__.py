"""Reports on trial: is this the noise that the devices were asked to make?"""

import keyveil.audit.reports.literature  # noqa: F401  # registers what it knows
from keyveil.audit.reports.noise import ALARM, Finding, Verdict, compare, examine

__all__ = ["ALARM", "Finding", "Verdict", "compare", "examine"]
