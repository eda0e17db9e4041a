"""The contract of a mechanism, shipped as checks."""

from keyveil.testing.checks import CHECKS, Check, check_mechanism

__all__ = ["CHECKS", "Check", "check_mechanism"]
