"""Devices of both languages in one series at a real collector: whose panel has the wave is counted."""

import json
from datetime import UTC, datetime, timedelta

from collecting import make_question
from javascript import FOLDER, run_node
from serving import Process

from keyveil import Campaign
from keyveil.client import Reporter

WAVES, EACH = 3, 24
HELD = {"app-1": 20.0}
SUBMIT = f"""
  import {{ Device, FileLedger }} from {json.dumps((FOLDER / "node.js").as_uri())};
  const [address, held, ledgers] = JSON.parse(process.argv[1]);
  const told = [];
  for (const path of ledgers) {{
    const device = await Device.connect(address, {{ ledger: new FileLedger(path), environment: {{}} }});
    await device.enable();
    const submitted = await device.submit(held);
    const sent = await device.upload();
    const {{ spent, promised }} = await device.status();
    told.push([submitted.code, sent.code, sent.sent, spent, promised]);
  }}
  console.log(JSON.stringify(told));
"""


def make_weekly():
    """A series of which this is the second week: whoever comes now missed the first."""
    begins = (datetime.now(UTC) - timedelta(days=7)).date().isoformat()
    fields = json.loads(make_question("kvue", name="every week", epsilon=2.0).canonical_json)
    table = {"every": "week", "waves": WAVES, "answers": 1, "start": begins}
    return Campaign.from_fields({**fields, "series": table})


def python_device(address, ledger):
    """What `SUBMIT` does."""
    with Reporter.connect(address, ledger=ledger) as device:
        device.enable()
        submitted, sent = device.submit(HELD), device.upload()
        status = device.status()
        return [submitted.code.value, sent.code.value, status.traffic.sent, status.spent, status.promised]


def test_both_languages_answer_the_waves_of_their_panels(tmp_path):
    process, weekly = Process(f"sqlite:///{tmp_path}/c.db"), make_weekly()
    fields = json.loads(weekly.canonical_json)
    status, body = process.ask(
        "POST", "/v1/series", {"campaign": fields, "terms": {"uploads": "open"}}, token=process.admin
    )
    assert status == 201, body
    made = json.loads(body)
    assert (made["id"], made["wave"]) == (weekly.id, 2)
    address = f"{process.url}/v1/series/{weekly.id}"
    told = {
        "python": [python_device(address, tmp_path / f"p{number}.db") for number in range(EACH)],
        "javascript": run_node(
            SUBMIT, address, HELD, [str(tmp_path / f"j{number}.json") for number in range(EACH)]
        ),
    }
    for language, devices in told.items():
        asked = [device for device in devices if device[0] == "done"]
        others = [device for device in devices if device[0] == "other-wave"]
        # Each is asked with chance 1/3: of 24 none, or all, would be a wonder of one in ten thousand.
        assert asked, language
        assert others, language
        assert len(asked) + len(others) == EACH, devices
        assert all(device[1:] == ["done", 1, 2, 2] for device in asked), asked
        assert all(device[2:] == [0, 0, 2] for device in others), others
    wave = weekly.wave(2)
    count = sum(device[0] == "done" for devices in told.values() for device in devices)
    rounds = json.loads(process.ask("GET", f"/v1/campaigns/{wave.id}/rounds", token=process.admin)[1])[
        "rounds"
    ]
    assert [each["reports"] for each in rounds] == [count]
    process.kill()
