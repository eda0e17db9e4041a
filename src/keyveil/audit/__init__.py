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
from keyveil.audit.protocols import ProtocolCertificate, certify_protocol

__all__ = [
    "Certificate",
    "ProtocolCertificate",
    "Trial",
    "certify",
    "certify_protocol",
    "closed_form_loss",
    "enumerate_loss",
    "enumeration_size",
    "epsilon_lower_bound",
    "extreme_records",
    "try_out",
]
