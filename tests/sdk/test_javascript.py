"""The JavaScript device on the same vectors; without Node the test is skipped, under CI it fails."""

import json
import os
import re
import subprocess

import pytest
from collecting import make_question
from javascript import FOLDER, find_node, run_node
from serving import Process

from keyveil.client import SENTENCES, Reporter

SUBMIT = f"""
  import {{ Device, FileLedger, issuedIds }} from {json.dumps((FOLDER / "node.js").as_uri())};
  const [description, options, held, ledger] = JSON.parse(process.argv[1]);
  const ids = options.campaign && {{ ids: issuedIds(options) }};
  const book = new FileLedger(ledger);
  const device = await Device.open(description, {{ ...options, ...ids, ledger: book, environment: {{}} }});
  await device.enable();
  const made = await device.submit(held);
  console.log(JSON.stringify(made.ok ? await device.upload() : made));
"""
CONNECT = f"""
  import {{ Device, FileLedger }} from {json.dumps((FOLDER / "node.js").as_uri())};
  const [address, options, held, ledger] = JSON.parse(process.argv[1]);
  const book = new FileLedger(ledger);
  const device = await Device.connect(address, {{ ...options, ledger: book, environment: {{}} }});
  await device.enable();
  const made = await device.submit(held);
  console.log(JSON.stringify(made.ok ? await device.upload() : made));
"""


def test_the_javascript_device_passes_its_tests():
    run = subprocess.run(
        [find_node(), "--test", "--test-reporter=tap", "test/"], cwd=FOLDER, capture_output=True, text=True
    )
    failed = [line for line in run.stdout.splitlines() if line.lstrip().startswith("not ok")]
    assert run.returncode == 0, "\n".join(failed) or run.stdout + run.stderr
    assert not failed


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_no_transcript_of_many_histories_of_a_javascript_device_tells_more(capsys):
    run = subprocess.run(
        [find_node(), "--test", "--test-reporter=tap", "test/model.test.js"],
        cwd=FOLDER,
        env={**os.environ, "KEYVEIL_HISTORIES": "1000"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    with capsys.disabled():
        print("\n" + next(line for line in run.stdout.splitlines() if "largest ratio" in line))


def test_a_javascript_device_with_a_token_reports_to_a_real_collector(tmp_path):
    """Without the token its report waits; with it the report counts, once; after the round it is refused."""
    collector = Process(f"sqlite:///{tmp_path}/collector.db")
    try:
        campaign = make_question()
        token = collector.create(campaign)["device_token"]
        url = f"/v1/campaigns/{campaign.id}"
        view = json.loads(collector.ask("GET", url)[1])
        description = {**view["round"], "campaign": view["campaign"]}

        def device(name="ledger.json", *, held, **options):
            said = {"url": collector.url, "firstWait": 0, **options}
            return run_node(SUBMIT, description, said, held, str(tmp_path / name))

        sent = {"ok": True, "code": "done", "sent": 1, "refused": []}
        assert device(held={campaign.keys[0]: 3})["code"] == "token-refused"
        assert device(held={campaign.keys[0]: 3}, token=token) == sent
        # Asked again, with whatever record, it sends the same bytes: a duplicate, and no fault.
        assert device(held={campaign.keys[1]: 5}, token=token) == sent
        assert collector.ask("POST", f"{url}/rounds/1/close", token=collector.admin)[0] == 200
        late = device("another.json", held={campaign.keys[1]: 5}, token=token)
        assert (late["sent"], [one["code"] for one in late["refused"]]) == (0, ["round-closed"])
        rounds = json.loads(collector.ask("GET", f"{url}/rounds", token=collector.admin)[1])["rounds"]
        assert [one["reports"] for one in rounds] == [1]
    finally:
        collector.kill()


def test_a_javascript_device_asks_for_its_id_where_the_collector_hands_them_out(tmp_path):
    collector = Process(f"sqlite:///{tmp_path}/collector.db")
    try:
        campaign = make_question("kvue", ids="issued")
        token = collector.create(campaign)["device_token"]
        url = f"/v1/campaigns/{campaign.id}"
        view = json.loads(collector.ask("GET", url)[1])
        description = {**view["round"], "campaign": view["campaign"]}

        def device(name, **options):
            said = {"url": collector.url, "token": token, **options}
            return run_node(SUBMIT, description, said, {campaign.keys[0]: 3}, str(tmp_path / name))

        sent = {"ok": True, "code": "done", "sent": 1, "refused": []}
        assert device("issued.json", campaign=campaign.id) == sent
        # Told where the collector is, it finds out by itself.
        assert device("alone.json") == sent
        assert device("wrong.json", campaign=campaign.id, token="kv-none")["code"] == "no-id"
        # Connected, it learns from the collector that ids are handed out.
        held, ledger = {campaign.keys[0]: 3}, str(tmp_path / "connected.json")
        assert run_node(CONNECT, f"{collector.url}{url}", {"token": token}, held, ledger) == sent
    finally:
        collector.kill()


def test_both_languages_have_the_same_verbs_and_codes():
    """U19: one said `submit`, `upload` and `not-enabled` where the other said `report`, `send` and `off`."""
    script = f"""
      import {{ Device, SENTENCES }} from {json.dumps((FOLDER / "node.js").as_uri())};
      const names = (owner) => Object.getOwnPropertyNames(owner);
      const verbs = [...names(Device), ...names(Device.prototype)];
      console.log(JSON.stringify([verbs, SENTENCES]));
    """
    verbs, sentences = run_node(script)
    assert sentences == {code.value: sentence for code, sentence in SENTENCES.items()}
    of_python = {name for name in vars(Reporter) if not name.startswith("_")}
    of_javascript = set(verbs) - {"length", "name", "prototype", "constructor"}
    shared = {"open", "connect", "report", "submit", "upload", "enable", "disable", "status", "explain"}
    assert of_javascript & of_python == shared
    # A page has no threads and no end that waits, a program has no page.
    assert of_javascript - shared == {"uploadOnHide", "id", "price"}
    assert of_python - shared == {"upload_soon", "flush", "close", "campaign"}


def test_the_javascript_device_has_no_dependencies():
    text = (FOLDER / "package.json").read_text(encoding="utf-8")
    assert "ependencies" not in text
    sources = [
        *(FOLDER / name for name in ("keyveil.js", "node.js", "sealed.js")),
        *(FOLDER / "src").rglob("*.js"),
    ]
    named = {
        (path.relative_to(FOLDER).as_posix(), name)
        for path in sources
        for name in re.findall(r"""(?:from|import\()\s*["']([^"']+)""", path.read_text(encoding="utf-8"))
    }
    assert len(named) > len(sources)
    outside = {(path, name) for path, name in named if not name.startswith(("./", "../"))}
    # Browsers never reach what is Node's own: who may import these two is in javascript.layers.js.
    assert outside == {("node.js", "node:crypto"), ("src/ledgers/file.js", "node:fs/promises")}
