"""What a device says to the application's log, under the name `keyveil.client`: what receipts say.

Their codes and details, never what was read of a record: no detail holds anything about it. Nothing is
printed unless the application sets logging up.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from keyveil.client.receipt import Code, Receipt

NAME = "keyveil.client"
_LOG = logging.getLogger(NAME)
_LOG.addHandler(logging.NullHandler())

# What somebody must mend: whoever wrote the application, or who runs the collector.
_TO_MEND = frozenset(
    {
        Code.BAD_DESCRIPTION,
        Code.BAD_RECORD,
        Code.NO_LEDGER,
        Code.LEDGER_CORRUPT,
        Code.LEDGER_UNWRITABLE,
        Code.NO_COLLECTOR,
        Code.HTTPS_REQUIRED,
        Code.TOKEN_REFUSED,
        Code.REFUSED,
        Code.NO_ID,
        Code.FAULT,
    }
)


def noted(verb: str, receipt: Receipt) -> Receipt:
    """The receipt, once it is logged: at DEBUG if done, at WARNING if it is to be mended, else at INFO."""
    level = logging.DEBUG if receipt else logging.WARNING if receipt.code in _TO_MEND else logging.INFO
    # A handler of the application's may raise; the application must go on.
    with suppress(Exception):
        _LOG.log(level, "%s: %s; %s", verb, receipt.code.value, receipt.detail or receipt.message)
    return receipt
