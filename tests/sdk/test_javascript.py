"""The JavaScript device on the same vectors; without Node the test is skipped, under CI it fails."""

import json
import shutil
import subprocess
from pathlib import Path

from collecting import make_question
from parts import lacking
from serving import Process

FOLDER = Path(__file__).resolve().parents[2] / "sdk" / "js"
OLDEST = 18
REPORT = f"""
  import {{ Device, FileLedger, issuedIds }} from {json.dumps((FOLDER / "keyveil.js").as_uri())};
  const [config, options, held, ledger] = JSON.parse(process.argv[1]);
  const book = new FileLedger(ledger);
  const ids = options.campaign && {{ ids: issuedIds(options) }};
  const device = await Device.open(config, {{ ...options, ...ids, ledger: book, environment: {{}} }});
  await device.enable();
  const made = await device.report(held);
  if (!made.ok) throw new Error(made.code);
  console.log(JSON.stringify(await device.send()));
"""


def find_node():
    node = shutil.which("node")
    if node is not None:
        version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
        if int(version.lstrip("v").partition(".")[0]) >= OLDEST:
            return node
    return lacking(
        f"Node {OLDEST} or newer is needed for the JavaScript tests; on Debian: apt-get install nodejs"
    )


def test_the_javascript_device_passes_its_tests():
    run = subprocess.run(
        [find_node(), "--test", "--test-reporter=tap", "test/"], cwd=FOLDER, capture_output=True, text=True
    )
    failed = [line for line in run.stdout.splitlines() if line.lstrip().startswith("not ok")]
    assert run.returncode == 0, "\n".join(failed) or run.stdout + run.stderr
    assert not failed


def test_a_javascript_device_with_a_token_reports_to_a_real_collector(tmp_path):
    """Without the token its report waits; with it the report counts, once; after the round it is refused."""
    collector = Process(f"sqlite:///{tmp_path}/collector.db")
    try:
        campaign = make_question()
        token = collector.create(campaign)["device_token"]
        url = f"/v1/campaigns/{campaign.id}"
        config = json.loads(collector.ask("GET", url)[1])["device_config"]
        ledger = str(tmp_path / "ledger.json")

        def device(*, held, **options):
            given = json.dumps([config, {"url": collector.url, "firstWait": 0, **options}, held, ledger])
            run = subprocess.run(
                [find_node(), "--input-type=module", "-e", REPORT, given], capture_output=True, text=True
            )
            assert run.returncode == 0, run.stderr
            return json.loads(run.stdout)

        assert device(held={campaign.keys[0]: 3})["code"] == "token-refused"
        assert device(held={campaign.keys[0]: 3}, token=token) == {"ok": True, "sent": 1, "refused": []}
        # The same answer again is a duplicate, and no fault.
        assert device(held={campaign.keys[0]: 3}, token=token) == {"ok": True, "sent": 1, "refused": []}
        assert collector.ask("POST", f"{url}/rounds/1/close", token=collector.admin)[0] == 200
        late = device(held={campaign.keys[1]: 5}, token=token)
        assert (late["sent"], [one["code"] for one in late["refused"]]) == (0, ["round_closed"])
        rounds = json.loads(collector.ask("GET", f"{url}/rounds", token=collector.admin)[1])["rounds"]
        assert [one["reports"] for one in rounds] == [1]
    finally:
        collector.kill()


def test_a_javascript_device_asks_for_its_id_where_the_collector_hands_them_out(tmp_path):
    collector = Process(f"sqlite:///{tmp_path}/collector.db")
    try:
        campaign = make_question("bucket")
        token = collector.create(campaign, ids="issued")["device_token"]
        config = json.loads(collector.ask("GET", f"/v1/campaigns/{campaign.id}")[1])["device_config"]

        def report(name, **options):
            said = {"url": collector.url, "token": token, **options}
            given = json.dumps([config, said, {campaign.keys[0]: 3}, str(tmp_path / name)])
            return subprocess.run(
                [find_node(), "--input-type=module", "-e", REPORT, given], capture_output=True, text=True
            )

        own = json.loads(report("own.json").stdout)
        assert (own["sent"], [one["code"] for one in own["refused"]]) == (0, ["not-issued"])
        assert "issuedIds" in own["refused"][0]["reason"]
        issued = json.loads(report("issued.json", campaign=campaign.id).stdout)
        assert issued == {"ok": True, "sent": 1, "refused": []}
        assert "no-id" in report("wrong.json", campaign=campaign.id, token="kv-none").stderr
    finally:
        collector.kill()


def test_the_javascript_device_has_no_dependencies():
    text = (FOLDER / "package.json").read_text(encoding="utf-8")
    assert "ependencies" not in text
    imports = [
        line for line in (FOLDER / "keyveil.js").read_text().splitlines() if line.startswith("import ")
    ]
    assert imports == []
