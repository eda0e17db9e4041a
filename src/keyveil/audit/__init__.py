"""Exact certificates from the kernel; black-box lower bounds from draws of the sampler."""

from keyveil.audit.blackbox import Trial, epsilon_lower_bound, try_out
from keyveil.audit.central import CentralLoss, SeenRound, central_loss, largest_promised, promised_loss
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
    "CentralLoss",
    "Certificate",
    "ProtocolCertificate",
    "SeenRound",
    "Trial",
    "central_loss",
    "certify",
    "certify_protocol",
    "closed_form_loss",
    "enumerate_loss",
    "enumeration_size",
    "epsilon_lower_bound",
    "extreme_records",
    "largest_promised",
    "promised_loss",
    "try_out",
]
