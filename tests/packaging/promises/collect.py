"""`collect`: reports become a release; its charts and Arrow tables name the extra that brings them."""

from keyveil import Campaign
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
assert release.metadata["users"] == 200
assert release.to_csv().startswith("key,")
for wanted in (release.plot, release.to_arrow):
    assert "pip install 'keyveil[analysis]'" in refusal_of(wanted)
