"""The device's side: standard library only, secure randomness, one report whatever the record.

::

    with Reporter(campaign, ledger="device.db", collector="https://collect.example.org") as device:
        device.enable()                     # once the person has said yes
        device.submit({"maps": 12.0})       # never raises; asks the network for an issued id at most
        device.upload_soon()                # never raises, returns at once; the block's end waits, not long
"""

from keyveil.client.permission import Caps
from keyveil.client.queue import Limits, Traffic
from keyveil.client.receipt import SENTENCES, Code, Reading, Receipt
from keyveil.client.reporter import Reporter, Status
from keyveil.client.transport import Fetched, Issuer, fetch_campaign, fetch_round, issued_ids

__all__ = [
    "SENTENCES",
    "Caps",
    "Code",
    "Fetched",
    "Issuer",
    "Limits",
    "Reading",
    "Receipt",
    "Reporter",
    "Status",
    "Traffic",
    "fetch_campaign",
    "fetch_round",
    "issued_ids",
]
