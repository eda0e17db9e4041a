"""What a relay would bring: reports sealed to a collector's newest key."""

import secrets

from keyveil.report import to_frames
from keyveil.sealing import SealingKey


def relayed(make_question, mechanism="bucket", **changes):
    """A campaign that a relay carries, in batches of ten."""
    return make_question(mechanism, **({"relay": "required", "batch": 10} | changes))


class TestRelay:
    """Somebody with a relay's token, beside a `Caller`."""

    __test__ = False

    def __init__(self, caller, campaign):
        self.caller, self.campaign = caller, campaign
        answer = caller(
            "POST", f"/v1/campaigns/{campaign.id}/tokens", token=caller.admin, json_body={"role": "relay"}
        )
        self.token = answer.json["token"]

    def key(self):
        """The key to which devices seal now."""
        return SealingKey(bytes.fromhex(self.caller("GET", "/v1/keys").json["keys"][0]["public"]))

    def seal(self, reports, round=1, key=None):
        """The reports as a relay has them."""
        key = key or self.key()
        return [key.seal(report, campaign=self.campaign.id, round=round) for report in reports]

    def bring(self, sealed, *, round=1, batch=None, size=None, part=0, parts=1, token=None):
        """A batch, or part of one, of sealed reports."""
        path = (
            f"/v1/campaigns/{self.campaign.id}/batches?batch={batch or secrets.token_hex(16)}&round={round}"
            f"&size={size or len(sealed)}&part={part}&parts={parts}"
        )
        return self.caller("POST", path, to_frames(sealed), token=token or self.token)
