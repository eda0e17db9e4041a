"""Without an extra, and in the device's own distribution: a collector's work names the extra that does it."""

from keyveil import Campaign
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
for wanted in (lambda: campaign.tally([]), lambda: campaign.estimate(None), campaign.protocol):
    assert "pip install 'keyveil[collect]'" in refusal_of(wanted)
