"""`analysis`: a release as a chart and as an Arrow table; Spark's engine names its extra."""

import io

from keyveil import Campaign
from keyveil.batch import spark
from keyveil.client import Reporter
from keyveil.errors import MissingPackage


def refusal_of(wanted):
    try:
        wanted()
    except MissingPackage as refusal:
        return str(refusal)
    return "none"


campaign = Campaign(
    name="apps", epsilon=2, keys=("maps", "mail"), value_range=(0, 120), pairs_per_user=1, mechanism="pckv-ue"
)
device = Reporter(campaign)
release = campaign.estimate(campaign.tally(device.report({"maps": 30.0}) for _ in range(200)))
assert release.to_arrow().column("key").to_pylist() == ["maps", "mail"]
drawn = io.StringIO()
release.plot().savefig(drawn, format="svg")
assert "<svg" in drawn.getvalue()
assert "pip install 'keyveil[spark]'" in refusal_of(lambda: spark.session("local[1]"))
