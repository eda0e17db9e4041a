"""`fast`: compiled loops count what numpy counts, and noise in bulk comes from AES."""

import os
import sys

import numba  # noqa: F401  (loaded, it is used for however little there is)

from keyveil import Campaign
from keyveil.batch.stream import SecureStream, draw_words
from keyveil.client import Reporter
from keyveil.compiled import SWITCH, has_compiler

campaign = Campaign(
    name="apps",
    epsilon=2,
    keys=("maps", "mail"),
    value_range=(0, 120),
    pairs_per_user=1,
    mechanism="pckv-grr",
)
device = Reporter(campaign)
reports = [device.report({"maps": 30.0}) for _ in range(200)]
counted = campaign.tally(reports)
assert "keyveil.tally.loops" in sys.modules, "nothing was compiled"
os.environ[SWITCH] = "0"
has_compiler.cache_clear()
assert campaign.tally(reports) == counted
assert len(set(draw_words(SecureStream(), 100).tolist())) == 100
assert "cryptography" in sys.modules, "no AES"
