"""Keys that nobody listed, over HTTP: devices of both languages tell prefixes, then names are measured."""

import json

import pytest
from collecting import WHO
from javascript import FOLDER, run_node
from serving import Process

from keyveil import Campaign
from keyveil.client import Reporter
from keyveil.domain.learning import learn_code
from keyveil.domain.texts import THE_REST

# Of each language, in the nightly run.
MANY = 10_000
CODE = learn_code(["abcdefgh" * 40, *("abcdefgh" * 60)], longest=24, tables=1)
HELD = {"python": {"abba": 20.0, "cafe": 40.0}, "javascript": {"abba": 20.0, "dead": 50.0}}
SUBMIT = f"""
  import {{ Device, FileLedger }} from {json.dumps((FOLDER / "node.js").as_uri())};
  const [address, held, ledgers] = JSON.parse(process.argv[1]);
  const told = [];
  for (const path of ledgers) {{
    const device = await Device.connect(address, {{ ledger: new FileLedger(path), environment: {{}} }});
    await device.enable();
    const submitted = await device.submit(held);
    const sent = await device.upload();
    const {{ spent }} = await device.status();
    told.push([submitted.code, sent.code, spent]);
  }}
  console.log(JSON.stringify(told));
"""


def make_open(users, **changes):
    return Campaign(
        **{
            **WHO,
            "name": "what people write",
            "epsilon": 4.0,
            "keys": "open",
            "longest": 24,
            "code": CODE.tables,
            "value_range": (0.0, 60.0),
            "pairs_per_user": 2,
            "mechanism": "open",
            "users": users,
            **changes,
        }
    )


def python_device(address, ledger):
    with Reporter.connect(address, ledger=ledger) as device:
        device.enable()
        submitted, sent = device.submit(HELD["python"]), device.upload()
        return [submitted.code.value, sent.code.value, device.status().spent]


@pytest.mark.parametrize(
    "each", [30, pytest.param(MANY, marks=[pytest.mark.nightly, pytest.mark.timeout(7200)])]
)
def test_devices_of_both_languages_are_searched_and_measured(tmp_path, each):
    process, campaign = Process(f"sqlite:///{tmp_path}/c.db"), make_open(2 * each, block=("face",))
    asked = {"campaign": json.loads(campaign.canonical_json), "terms": {"uploads": "open"}}
    status, body = process.ask("POST", "/v1/campaigns", asked, token=process.admin)
    assert status == 201, body
    address = f"{process.url}/v1/campaigns/{campaign.id}"
    ledgers = {
        "python": [tmp_path / f"p{number}.db" for number in range(each)],
        "javascript": [str(tmp_path / f"j{number}.json") for number in range(each)],
    }
    answered = dict.fromkeys((str(path) for paths in ledgers.values() for path in paths), 0)
    purposes = []
    while (opened := json.loads(process.ask("GET", f"/v1/campaigns/{campaign.id}")[1])["round"]) is not None:
        purposes.append(opened["purpose"])
        told = [python_device(address, path) for path in ledgers["python"]]
        told += run_node(SUBMIT, address, HELD["javascript"], ledgers["javascript"])
        for path, (code, sent, spent) in zip(answered, told, strict=True):
            assert code in ("done", "other-group"), told
            assert sent == "done"
            answered[path] += code == "done"
            assert spent == 4.0 * answered[path]
        done, body = process.ask(
            "POST", f"/v1/campaigns/{campaign.id}/rounds/{opened['number']}/close", token=process.admin
        )
        assert done == 200, body
    # Groups are disjoint: everybody answered once, and the last round said its keys by name.
    assert set(answered.values()) == {1}
    assert purposes[0] == "level 22"
    assert purposes[-1] == "measure"
    released = json.loads(
        process.ask("GET", f"/v1/campaigns/{campaign.id}/release?format=json", token=process.admin)[1]
    )
    rows = {row["key"]: row for row in released["rows"]}
    assert rows[THE_REST]["false_share"] is None
    assert all(row["false_share"] <= 0.05 for key, row in rows.items() if key != THE_REST)
    # A few devices a group need not find what all of them hold.
    if each >= MANY:
        assert rows["abba"]["frequency_high"] > 0.9
    assert released["metadata"]["block"] == ["face"]
    text = process.ask("GET", f"/v1/campaigns/{campaign.id}/release?format=csv", token=process.admin)[1]
    assert "false_share" in (text if isinstance(text, str) else text.decode())
    process.kill()
