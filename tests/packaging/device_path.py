"""What an application does with the device's side, by any Python that has it: no test tools, no server."""

import json
import sys
import tempfile
from pathlib import Path

before = set(sys.modules)
from keyveil import Campaign  # noqa: E402
from keyveil.client import Reporter  # noqa: E402

outside = (
    {name.partition(".")[0] for name in set(sys.modules) - before}
    - set(sys.stdlib_module_names)
    - {"keyveil"}
)
campaign = Campaign(
    name="apps",
    epsilon=1.0,
    keys=("maps", "mail", "chess"),
    value_range=(0, 120),
    pairs_per_user=2,
    mechanism="pckv-ue",
)
with tempfile.TemporaryDirectory() as folder:
    device = Reporter(campaign, ledger=Path(folder) / "device.db")
    assert device.enable(), "no ledger"
    report = device.report({"maps": 30.0})
    assert report == device.report({"mail": 99.0}), "a device has one vote"
    spent = device.status().epsilon_campaign
    device.close()
print(json.dumps({"outside": sorted(outside), "bytes": len(report), "spent": spent}))
