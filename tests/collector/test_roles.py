"""Every endpoint for every role, as the OpenAPI document has it: who is let in, and who is not."""

import json
import secrets

import pytest
from collecting import NOW, Caller, make_question, make_series, wave_reports

from keyveil.client import Reporter
from keyveil.collector.http.endpoints import ENDPOINTS
from keyveil.collector.http.openapi import document
from keyveil.collector.tokens import Role
from keyveil.report import to_frames
from keyveil.segments import Segments

OPERATIONS = [
    (method.upper(), path, operation)
    for path, methods in document(ENDPOINTS)["paths"].items()
    for method, operation in methods.items()
]
ROLES = [role.value for role in Role]
# What those who are let in hear, where it is a refusal all the same: no relay carries ids that were issued,
# and no pair is asked about.
AFTERWARDS = {"send_batch": "not-relayed", "pairs": "bad-request"}


class World:
    """Two campaigns, and a token of every role for each and for all."""

    def __init__(self, folder):
        self.caller = Caller(f"sqlite:///{folder}/c.db")
        by = Segments(told="clear", attributes=(("platform", ("ios",)),))
        self.here = make_question(ids="issued", segments=by)
        self.there = make_question(name="elsewhere")
        for campaign in (self.here, self.there):
            self.caller.create(campaign)
        self.series, self.ended, elsewhere = (self.begin(f"asked again {no}") for no in range(3))
        wave = self.series.wave(1)
        device = self.made_tokens(f"/v1/series/{self.series.id}", "/v1")["device", "here"]
        assert self.caller.send(wave, wave_reports(wave, 2), token=device) == ["accepted"] * 2
        there = f"/v1/series/{elsewhere.id}"
        self.tokens = {
            "campaign": self.made_tokens(f"/v1/campaigns/{self.here.id}", f"/v1/campaigns/{self.there.id}"),
            "series": self.made_tokens(f"/v1/series/{self.series.id}", there),
            "ended": self.made_tokens(f"/v1/series/{self.ended.id}", there),
        }
        # Rows may be asked in any order, by several workers: what is released needs a report in each world.
        path, token = f"/v1/campaigns/{self.here.id}/reports", self.tokens["campaign"]["device", "here"]
        assert self.caller("POST", path, self.upload(), token=token).status == 200

    def tokens_for(self, path):
        """The tokens of what an address is about."""
        if "{series}" not in path:
            return self.tokens["campaign"]
        return self.tokens["ended" if path.endswith("/end") else "series"]

    def made_tokens(self, here, there):
        """A token of every role that may be, for one thing, another one and all."""
        tokens = {}
        for scope, where in (("here", here), ("there", there), ("everywhere", "/v1")):
            for role in ROLES:
                if role in ("admin", "monitor") and scope != "everywhere":
                    continue
                token = {"role": role}
                answer = self.caller("POST", f"{where}/tokens", token=self.caller.admin, json_body=token)
                assert answer.status == 201, answer
                tokens[role, scope] = answer.json["token"]
        return tokens

    def begin(self, name):
        """A series that has begun; it has waves of which none is over."""
        series = make_series(name=name, waves=100)
        body = {"campaign": json.loads(series.canonical_json)}
        answer = self.caller("POST", "/v1/series", token=self.caller.admin, json_body=body)
        assert answer.status == 201, answer
        return series

    def ask(self, method, path, operation, token):
        path = path.replace("{campaign}", self.here.id).replace("{round}", "1")
        path = path.replace("{series}", (self.ended if path.endswith("/end") else self.series).id)
        if "{annotation}" in path:
            path = path.replace("{annotation}", self.spare_annotation())
        if "{token}" in path:
            path = path.replace("{token}", self.spare(path))
        if "{key}" in path:
            path = path.replace("{key}", self.spare_key())
        if operation["operationId"] == "issue_ids":
            path += f"?nonce={secrets.token_hex(16)}"
        if operation["operationId"] == "send_batch":
            path += f"?batch={secrets.token_hex(16)}&round=1&size=1"
        body, headers = None, []
        content = operation.get("requestBody", {}).get("content", {})
        if "application/octet-stream" in content:
            body = self.upload()
        elif content:
            body, headers = json.dumps(self.body(operation)).encode(), [("content-type", "application/json")]
        return self.caller(method, path, body, token=token, headers=headers)

    def upload(self):
        """A report under an id that was issued for it."""
        issue, nonce = self.caller.collector.campaigns.issue_ids, secrets.token_hex(16)
        [name] = issue(self.here.id, token="somebody", nonce=nonce, count=1).ids
        return to_frames([Reporter(self.here, ids=lambda: bytes.fromhex(name)).report({})])

    def body(self, operation):
        name = f"new {operation['operationId']}"
        campaign = json.loads(make_question(name=name).canonical_json)
        return {
            "create_campaign": {"campaign": campaign},
            "compare_campaign": campaign,
            "label_campaign": {"label": "x"},
            "plan": {},
            "create_series": {"campaign": json.loads(make_series(name=name).canonical_json)},
            "label_series": {"label": "x"},
            "add_keys": {"add": [f"app-{secrets.token_hex(4)}"]},
            "annotate": {"at": NOW, "text": "2.3 released"},
        }.get(operation["operationId"], {"role": "analyst"})

    def spare(self, path):
        """A token to be revoked."""
        scope = path.rpartition("/tokens")[0]
        where = f"{scope}/tokens" if scope.startswith(("/v1/campaigns", "/v1/series")) else "/v1/tokens"
        return self.caller("POST", where, token=self.caller.admin, json_body={"role": "device"}).json["id"]

    def spare_annotation(self):
        """A note to be taken away."""
        path, note = f"/v1/series/{self.series.id}/annotations", {"at": NOW, "text": "a mistake"}
        return str(self.caller("POST", path, token=self.caller.admin, json_body=note).json["id"])

    def spare_key(self):
        """A key to be retired."""
        spare, _ = (self.caller("POST", "/v1/keys", token=self.caller.admin).json for _ in range(2))
        return spare["keys"][0]["id"]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = World(tmp_path_factory.mktemp("roles"))
    yield made
    made.caller.close()


def expected(operation, role, scope):
    """What the document promises: let in, or the code of the refusal."""
    if not operation["security"]:
        return None
    if role not in operation["x-roles"]:
        return "forbidden"
    wanted = operation["x-scope"]
    if wanted == "any" or scope == "everywhere":
        return None
    if wanted == "collector" or scope == "there":
        return "other-campaign"
    return None


@pytest.mark.parametrize(
    ("method", "path", "operation"), OPERATIONS, ids=[f"{m} {p}" for m, p, _ in OPERATIONS]
)
def test_roles_hold(world, method, path, operation):
    cells = 0
    for (role, scope), token in world.tokens_for(path).items():
        answer = world.ask(method, path, operation, token)
        code = answer.code if answer.status >= 400 else None
        wanted = expected(operation, role, scope) or AFTERWARDS.get(operation["operationId"])
        assert code == wanted, (role, scope, answer)
        cells += 1
    answer = world.ask(method, path, operation, None)
    if operation["security"]:
        assert (answer.status, answer.code) == (401, "no-token")
        for odd in ("kv-" + "0" * 16 + "-" + "A" * 43, "nonsense", " ", "kv-"):
            assert world.ask(method, path, operation, odd).code == "unknown-token"
    else:
        assert answer.status < 400
    assert cells == 17


def test_the_document_knows_every_endpoint():
    assert len(OPERATIONS) == len(ENDPOINTS)
    assert {(m, p) for m, p, _ in OPERATIONS} == {(e.method, e.path) for e in ENDPOINTS}


def test_an_operator_lets_in_only_those_below(world):
    path = f"/v1/campaigns/{world.here.id}/tokens"
    for role, status in (
        ("device", 201),
        ("analyst", 201),
        ("relay", 201),
        ("annotator", 201),
        ("operator", 403),
        ("admin", 403),
    ):
        answer = world.caller(
            "POST", path, token=world.tokens["campaign"]["operator", "here"], json_body={"role": role}
        )
        assert answer.status == status
    above = next(
        token["id"]
        for token in world.caller("GET", path, token=world.caller.admin).json["tokens"]
        if token["role"] == "operator"
    )
    answer = world.caller("DELETE", f"{path}/{above}", token=world.tokens["campaign"]["operator", "here"])
    assert answer.code == "forbidden"


def test_a_token_cannot_be_revoked_from_another_campaign(world):
    made = world.caller(
        "POST",
        f"/v1/campaigns/{world.there.id}/tokens",
        token=world.caller.admin,
        json_body={"role": "device"},
    ).json
    here = f"/v1/campaigns/{world.here.id}/tokens/{made['id']}"
    assert (
        world.caller("DELETE", here, token=world.tokens["campaign"]["operator", "here"]).code
        == "unknown-token-id"
    )


def test_secrets_are_not_stored(world):
    for path in (world.caller.collector.store._path, f"{world.caller.collector.store._path}-wal"):
        with open(path, "rb") as file:
            stored = file.read()
        for token in world.tokens["campaign"].values():
            assert token.split("-", 2)[2].encode() not in stored


def test_the_log_of_acts_cannot_be_changed(caller):
    from keyveil.errors import StoreError

    caller.create(make_question())
    for statement in ("update acts set act = 'nothing'", "delete from acts"):
        with pytest.raises(StoreError), caller.collector.store.write() as tx:
            tx._run(statement)
    assert [act.act for act in caller.collector.access.acts(0).acts] == [
        "token-made",
        "campaign-created",
        "token-made",
    ]
