"""Every endpoint for every role, as the OpenAPI document has it: who is let in, and who is not."""

import json
import secrets

import pytest
from collecting import Caller, make_question

from keyveil.client import Reporter
from keyveil.collector.http.endpoints import ENDPOINTS
from keyveil.collector.http.openapi import document
from keyveil.collector.tokens import Role

OPERATIONS = [
    (method.upper(), path, operation)
    for path, methods in document(ENDPOINTS)["paths"].items()
    for method, operation in methods.items()
]
ROLES = [role.value for role in Role]
# What those who are let in hear, where it is a refusal all the same: no relay carries ids that were issued.
AFTERWARDS = {"send_batch": "not-relayed"}


class World:
    """Two campaigns, and a token of every role for each and for all."""

    def __init__(self, folder):
        self.caller = Caller(f"sqlite:///{folder}/c.db")
        self.here, self.there = make_question(ids="issued"), make_question(name="elsewhere")
        self.tokens = {}
        for scope, campaign in (("here", self.here), ("there", self.there), ("everywhere", None)):
            if campaign is not None:
                self.caller.create(campaign)
            for role in ROLES:
                if role in ("admin", "monitor") and campaign is not None:
                    continue
                path = "/v1/tokens" if campaign is None else f"/v1/campaigns/{campaign.id}/tokens"
                answer = self.caller("POST", path, token=self.caller.admin, json_body={"role": role})
                assert answer.status == 201, answer
                self.tokens[role, scope] = answer.json["token"]

    def ask(self, method, path, operation, token):
        path = path.replace("{campaign}", self.here.id).replace("{round}", "1")
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
            from keyveil.report import to_frames

            issue, nonce = self.caller.collector.campaigns.issue_ids, secrets.token_hex(16)
            [name] = issue(self.here.id, token="somebody", nonce=nonce, count=1).ids
            body = to_frames([Reporter(self.here, ids=lambda: bytes.fromhex(name)).report({})])
        elif content:
            body, headers = json.dumps(self.body(operation)).encode(), [("content-type", "application/json")]
        return self.caller(method, path, body, token=token, headers=headers)

    def body(self, operation):
        campaign = json.loads(make_question(name=f"new {operation['operationId']}").canonical_json)
        return {
            "create_campaign": {"campaign": campaign},
            "compare_campaign": campaign,
            "label_campaign": {"label": "x"},
            "plan": {},
        }.get(operation["operationId"], {"role": "analyst"})

    def spare(self, path):
        """A token to be revoked."""
        scope = path.rpartition("/tokens")[0]
        where = f"{scope}/tokens" if scope.startswith("/v1/campaigns") else "/v1/tokens"
        return self.caller("POST", where, token=self.caller.admin, json_body={"role": "device"}).json["id"]

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
    for (role, scope), token in world.tokens.items():
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
    assert cells == 14


def test_the_document_knows_every_endpoint():
    assert len(OPERATIONS) == len(ENDPOINTS)
    assert {(m, p) for m, p, _ in OPERATIONS} == {(e.method, e.path) for e in ENDPOINTS}


def test_an_operator_lets_in_only_those_below(world):
    path = f"/v1/campaigns/{world.here.id}/tokens"
    for role, status in (
        ("device", 201),
        ("analyst", 201),
        ("relay", 201),
        ("operator", 403),
        ("admin", 403),
    ):
        answer = world.caller("POST", path, token=world.tokens["operator", "here"], json_body={"role": role})
        assert answer.status == status
    above = next(
        token["id"]
        for token in world.caller("GET", path, token=world.caller.admin).json["tokens"]
        if token["role"] == "operator"
    )
    answer = world.caller("DELETE", f"{path}/{above}", token=world.tokens["operator", "here"])
    assert answer.code == "forbidden"


def test_a_token_cannot_be_revoked_from_another_campaign(world):
    made = world.caller(
        "POST",
        f"/v1/campaigns/{world.there.id}/tokens",
        token=world.caller.admin,
        json_body={"role": "device"},
    ).json
    here = f"/v1/campaigns/{world.here.id}/tokens/{made['id']}"
    assert world.caller("DELETE", here, token=world.tokens["operator", "here"]).code == "unknown-token-id"


def test_secrets_are_not_stored(world):
    for path in (world.caller.collector.store._path, f"{world.caller.collector.store._path}-wal"):
        with open(path, "rb") as file:
            stored = file.read()
        for token in world.tokens.values():
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
