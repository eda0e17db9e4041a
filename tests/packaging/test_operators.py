"""What operators start from: files that name what there is, and rules that a real Prometheus takes."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from collecting import Caller, make_question, make_reports

from keyveil.cli.app import keyveil

FILES = files("keyveil.cli.telemetry").joinpath("files")
PROMTOOL = Path(sys.executable).with_name("promtool")


def text(name):
    return FILES.joinpath(name).read_text()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The metrics of a collector that was used."""
    caller = Caller(f"sqlite:///{tmp_path_factory.mktemp('metrics')}/c.db")
    campaign = make_question()
    token = caller.create(campaign)["device_token"]
    caller.send(campaign, make_reports(campaign, 3), token=token)
    caller("GET", "/v1/campaigns", token="wrong")
    page = caller("GET", "/metrics", token=caller.admin).body.decode()
    caller.close()
    return page, campaign, caller.out.getvalue()


@pytest.mark.parametrize("name", ["alerts.yml", "grafana.json"])
def test_rules_and_panels_name_metrics_that_there_are(name, exported):
    there = set(re.findall(r"^(keyveil_\w+)", exported[0], flags=re.M))
    named = set(re.findall(r"keyveil_\w+", text(name)))
    assert len(named) >= 4
    assert named <= there


def test_codes_in_rules_are_codes_of_the_catalogue():
    from keyveil.collector.problems import CATALOGUE

    codes = {code for said in re.findall(r'code=~?"([^"]+)"', text("alerts.yml")) for code in said.split("|")}
    assert codes
    assert codes <= set(CATALOGUE)


def test_a_real_prometheus_takes_the_rules(tmp_path):
    tool = shutil.which("promtool") or (str(PROMTOOL) if PROMTOOL.exists() else None)
    if tool is None and not os.environ.get("CI"):
        pytest.skip("promtool is not installed; scripts/find_promtool.sh finds it where that is allowed")
    assert tool, "promtool must be there under CI"
    rules = tmp_path / "alerts.yml"
    rules.write_text(text("alerts.yml"))
    shown = subprocess.run([tool, "check", "rules", rules], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert "SUCCESS: 7 rules found" in shown.stdout
    rules.write_text(text("alerts.yml").replace("for: 2m", "for: soon"))
    assert subprocess.run([tool, "check", "rules", rules], capture_output=True).returncode != 0


def test_a_collector_is_started_with_options_that_it_has():
    there = set(re.findall(r"--[a-z-]+", CliRunner().invoke(keyveil, ["serve", "--help"]).output))
    compose = yaml.safe_load(text("compose.yaml"))
    kubernetes, service = yaml.safe_load_all(text("kubernetes.yaml"))
    pod = kubernetes["spec"]["template"]["spec"]["containers"][0]
    unit = re.search(r"^ExecStart=\S+ serve (.*)$", text("keyveil.service"), flags=re.M)[1]
    for words in (compose["services"]["collector"]["command"], pod["args"], unit.split()):
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= there
    assert {pod[f"{kind}Probe"]["httpGet"]["path"] for kind in ("liveness", "startup")} == {"/healthz"}
    assert pod["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert service["spec"]["ports"][0]["targetPort"] == 8765


def test_a_dashboard_is_whole():
    board = json.loads(text("grafana.json"))
    assert [panel["id"] for panel in board["panels"]] == list(range(1, len(board["panels"]) + 1))
    assert all(target["expr"] for panel in board["panels"] for target in panel["targets"])


def test_metrics_say_which_campaign_and_how_long_and_what_runs(exported):
    page, campaign, _ = exported
    assert f'keyveil_campaign_reports_total{{campaign="{campaign.id[:12]}",status="accepted"}} 3' in page
    assert 'keyveil_refused_requests_total{code="unknown-token"} 1' in page
    assert re.search(
        r'^keyveil_build_info\{version="[^"]+",python="[^"]+",store="sqlite"\} 1$', page, flags=re.M
    )
    assert "keyveil_upload_seconds_count 1" in page
    assert re.search(r'^keyveil_request_seconds_count\{request="\S+"\} [1-9]', page, flags=re.M)


def test_refusals_are_logged_by_code_and_every_line_is_json(exported):
    """U16: refusals were not logged, and some lines were no JSON."""
    lines = [json.loads(line) for line in exported[2].splitlines()]
    assert {"event": "refused", "code": "unknown-token", "count": 1}.items() <= next(
        line for line in lines if line["event"] == "refused"
    ).items()
