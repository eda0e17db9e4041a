"""JavaScript devices, a relay and a collector, each a process of its own: sealed reports are counted."""

import json
import re
import shutil
import subprocess
import time

import pytest
from browsing import ask
from collecting import make_question
from javascript import FOLDER, find_node, run_node
from relaying import relayed
from serving import Process

from keyveil.client import Reporter

SUBMIT = f"""
  import {{ Device, FileLedger }} from {json.dumps((FOLDER / "node.js").as_uri())};
  import {{ seal }} from {json.dumps((FOLDER / "sealed.js").as_uri())};
  const [address, options, held, ledger] = JSON.parse(process.argv[1]);
  const relay = options.relay ? {{ ...options.relay, seal }} : undefined;
  const book = new FileLedger(ledger);
  const given = {{ ...options, relay, ledger: book, environment: {{}} }};
  const device = await Device.connect(address, given);
  await device.enable();
  await device.submit(held);
  const outcome = await device.upload();
  const sealed = await book.update(({{ answers }}) => answers[0].sealed);
  console.log(JSON.stringify({{ ...outcome, sealed, route: (await device.status()).route }}));
"""
FENCE = re.compile(r"^```js\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Path:
    """A collector and a relay that carries its campaigns, two at least together."""

    def __init__(self, folder):
        self.collector = Process(f"sqlite:///{folder}/c.db")
        token = json.loads(
            self.collector.ask("POST", "/v1/tokens", {"role": "relay"}, token=self.collector.admin)[1]
        )["token"]
        options = ("--to", self.collector.url, "--token", token, "--refresh", "0.2")
        self.relay = Process(f"sqlite:///{folder}/r.db", *options, command="relay")

    def ask(self, name, **changes):
        """A campaign, and its address at either."""
        campaign = relayed(make_question, "bucket", name=name, **({"batch": 2} | changes))
        self.collector.create(campaign, uploads="open")
        return campaign, f"/v1/campaigns/{campaign.id}"

    def key(self):
        """The collector's key, once the relay lists it too."""
        [key] = json.loads(self.collector.ask("GET", "/v1/keys")[1])["keys"]
        for _ in range(200):
            if key in json.loads(self.relay.ask("GET", "/v1/keys")[1])["keys"]:
                break
            time.sleep(0.05)
        return key["public"]

    def counted(self, campaign, wanted):
        """How many reports the collector has counted, once the relay brought what it holds."""
        path = f"/v1/campaigns/{campaign.id}/rounds"
        assert self.relay.ask("POST", f"{path}/1/end", token=self.relay.admin)[0] == 200
        for _ in range(200):
            if (found := ask(self.collector, path)["rounds"][0]["reports"]) == wanted:
                break
            time.sleep(0.05)
        return found


@pytest.fixture
def path(tmp_path):
    made = Path(tmp_path)
    yield made
    made.relay.kill()
    made.collector.kill()


def test_sealed_reports_of_javascript_devices_are_counted_once(path, tmp_path):
    """One ships the key and knows the relay alone, one asks both, one names no relay and sends nothing."""
    campaign, address = path.ask("sealed")

    def device(name, base, relay=None, **options):
        held, ledger = {campaign.keys[0]: 3}, str(tmp_path / name)
        return run_node(SUBMIT, base + address, {**options, "relay": relay}, held, ledger)

    shipped = {"url": path.relay.url, "key": path.key()}
    first = device("shipped.json", path.relay.url, shipped)
    assert (first["code"], first["sent"], first["route"]) == ("done", 1, "relay")
    asking = device("asking.json", path.collector.url, {"url": path.relay.url})
    assert (asking["code"], asking["sent"], asking["route"]) == ("done", 1, "relay")
    assert first["sealed"][2:18] == asking["sealed"][2:18]
    # Again, by whatever way the campaign is asked for: the same bytes, of which the relay has had a copy.
    again = device("asking.json", path.relay.url, {"url": path.relay.url}, url=path.collector.url)
    assert (again["code"], again["sent"], again["sealed"]) == ("done", 1, asking["sealed"])
    alone = device("alone.json", path.collector.url)
    assert (alone["code"], alone["sent"], alone["route"]) == ("relay-required", 0, None)
    assert path.counted(campaign, 2) == 2


def test_python_and_javascript_devices_hide_in_one_batch(path, tmp_path):
    campaign, address = path.ask("both", batch=6)
    relay = {"url": path.relay.url, "key": path.key()}
    for number in range(3):
        held, ledger = {campaign.keys[number]: 3}, str(tmp_path / f"{number}.json")
        sent = run_node(SUBMIT, path.relay.url + address, {"relay": relay}, held, ledger)
        assert (sent["code"], sent["sent"]) == ("done", 1)
        device = Reporter(
            campaign, ledger=tmp_path / f"{number}.db", relay=relay["url"], sealing_key=relay["key"]
        )
        assert device.enable()
        assert device.submit(held)
        assert device.upload().detail == "1 reports settled"
    assert path.counted(campaign, 6) == 6
    [round] = [
        one
        for one in json.loads(path.relay.ask("GET", "/v1/relay", token=path.relay.admin)[1])["rounds"]
        if one["campaign"] == campaign.id
    ]
    assert (round["batches"], round["discarded"]) == ([6], 0)


def test_what_a_relay_says_of_a_report_a_javascript_device_understands(path, tmp_path):
    """A key that no collector has; a campaign that no relay carries; a round that is over."""
    campaign, address = path.ask("refused")
    held, ledger = {campaign.keys[0]: 3}, str(tmp_path / "ledger.json")
    stranger = {"relay": {"url": path.relay.url, "key": "09".ljust(64, "0")}}
    unknown = run_node(SUBMIT, path.collector.url + address, stranger, held, ledger)
    assert (unknown["code"], unknown["sent"], unknown["refused"]) == ("keys-differ", 0, [])
    plain = make_question(name="no relay")
    path.collector.create(plain, uploads="open")
    to_plain = f"{path.collector.url}/v1/campaigns/{plain.id}"
    said = run_node(SUBMIT, to_plain, stranger, {plain.keys[0]: 3}, str(tmp_path / "plain.json"))
    assert (said["code"], said["route"]) == ("not-relayed", None)
    path.relay.ask("POST", f"{address}/rounds/1/end", token=path.relay.admin)
    known = {"relay": {"url": path.relay.url, "key": path.key()}, "firstWait": 0}
    late = run_node(SUBMIT, path.collector.url + address, known, held, str(tmp_path / "late.json"))
    assert (late["sent"], [one["code"] for one in late["refused"]]) == (0, ["round-closed"])


def test_the_example_of_a_relayed_device_works_as_it_is_written(path, tmp_path):
    """Only the addresses and the key in it are others."""
    campaign, address = path.ask("example", batch=2, keys=("maps", "mail"))
    [example] = [
        block
        for block in FENCE.findall((FOLDER / "README.md").read_text(encoding="utf-8"))
        if "seal" in block
    ]
    for said, meant in (
        ("https://collector.example/v1/campaigns/ID", path.collector.url + address),
        ("https://relay.example", path.relay.url),
        ("THE COLLECTOR'S KEY", path.key()),
    ):
        assert said in example
        example = example.replace(said, meant)
    installed = tmp_path / "node_modules" / "keyveil"
    shutil.copytree(FOLDER, installed, ignore=shutil.ignore_patterns("test", "node_modules"))
    for visit in ("first", "second"):
        (tmp_path / visit).mkdir()
        (tmp_path / visit / "app.mjs").write_text(
            example + "console.log(JSON.stringify([await device.upload(), (await device.status()).sent]));\n",
            encoding="utf-8",
        )
        run = subprocess.run([find_node(), "app.mjs"], cwd=tmp_path / visit, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        assert json.loads(run.stdout) == [{"ok": True, "code": "done", "sent": 0, "refused": []}, 1]
    assert path.counted(campaign, 2) == 2
