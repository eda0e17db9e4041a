"""Every endpoint of a relay for every role: who is let in, and who is not."""

import pytest
from collecting import make_reports

from keyveil.collector.http.openapi import document
from keyveil.collector.tokens import Role
from keyveil.relay.endpoints import RELAY_ENDPOINTS
from keyveil.report import to_frames

OPERATIONS = [
    (method.upper(), path, operation)
    for path, methods in document(RELAY_ENDPOINTS)["paths"].items()
    for method, operation in methods.items()
]


def ask(relay, campaign, method, path, operation, token):
    path = path.replace("{campaign}", campaign.id).replace("{round}", "1")
    if "{token}" in path:
        where = path.rpartition("/")[0].replace("{token}", "")
        made = relay("POST", where, token=relay.admin, json_body={"role": "device"})
        path = path.replace("{token}", made.json["id"])
    body, named = None, {}
    content = operation.get("requestBody", {}).get("content", {})
    if "application/octet-stream" in content:
        body = to_frames(relay.seal(campaign, make_reports(campaign, 1)))
    elif content:
        named = {"json_body": {"role": "analyst"}}
    return relay(method, path, body, token=token, **named)


def test_roles_hold(relay, campaign):
    relay("GET", f"/v1/campaigns/{campaign.id}")
    tokens = {
        role.value: relay("POST", "/v1/tokens", token=relay.admin, json_body={"role": role.value}).json[
            "token"
        ]
        for role in Role
    }
    cells = 0
    for method, path, operation in OPERATIONS:
        for role, token in tokens.items():
            answer = ask(relay, campaign, method, path, operation, token)
            code = answer.code if answer.status >= 400 else None
            is_let_in = not operation["security"] or role in operation["x-roles"]
            assert code == (None if is_let_in else "forbidden"), (method, path, role, answer)
            cells += 1
        answer = ask(relay, campaign, method, path, operation, None)
        # Open to everybody, as this relay is, devices need no token.
        if operation["security"] and operation["operationId"] != "send_sealed":
            assert (answer.status, answer.code) == (401, "no-token"), (method, path)
            odd = ask(relay, campaign, method, path, operation, "kv-" + "0" * 16 + "-" + "A" * 43)
            assert odd.code == "unknown-token"
        else:
            assert answer.status < 400, (method, path, answer)
    assert cells == len(OPERATIONS) * len(Role) == len(RELAY_ENDPOINTS) * len(Role)


def test_a_relay_may_ask_devices_for_tokens(tmp_path, caller, campaign):
    from relays import RelayCaller

    relay = RelayCaller(f"sqlite:///{tmp_path}/t.db", caller, uploads="token")
    sealed = relay.seal(campaign, make_reports(campaign, 1))
    assert relay.send(campaign, sealed).code == "no-token"
    made = relay("POST", "/v1/tokens", token=relay.admin, json_body={"role": "device"}).json
    assert relay.send(campaign, sealed, token=made["token"]) == ["accepted"]
    relay("DELETE", f"/v1/tokens/{made['id']}", token=relay.admin)
    assert relay.send(campaign, sealed, token=made["token"]).code == "unknown-token"
    relay.close()


@pytest.mark.parametrize("path", ["/docs", "/errors", "/openapi.json"])
def test_pages_are_a_relay_s(relay, path):
    answer = relay("GET", path)
    assert answer.status == 200
    if path == "/openapi.json":
        assert answer.json["info"]["title"] == "keyveil relay"
        assert "/v1/campaigns/{campaign}/sealed" in answer.json["paths"]
