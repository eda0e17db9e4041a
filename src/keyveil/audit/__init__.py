"""Exact certificates from the kernel; black-box lower bounds from draws of the sampler."""

from keyveil.audit.blackbox import Trial, epsilon_lower_bound, try_out
from keyveil.audit.exact import (
    Certificate,
    certify,
    closed_form_loss,
    enumerate_loss,
    enumeration_size,
    extreme_records,
)

__all__ = [
    "Certificate",
    "Trial",
    "certify",
    "closed_form_loss",
    "enumerate_loss",
    "enumeration_size",
    "epsilon_lower_bound",
    "extreme_records",
    "try_out",
]
