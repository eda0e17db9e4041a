"""The README's lines about a collector, as they stand there."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from serving import Process

from keyveil.cli.app import keyveil

README = Path(__file__).parents[2] / "README.md"
CAMPAIGN = """
name = "minutes"
epsilon = 2.0
keys = ["maps", "mail", "chess"]
value_range = [0, 120]
pairs_per_user = 2
mechanism = "pckv-ue"
owner = "the maps team"
purpose = "learn which apps deserve work"
expires = "2099-01-31"
"""


def commands():
    """The block's commands, without what stands beside them."""
    block = README.read_text(encoding="utf-8").split("## The collector\n\n", 1)[1].split("\n\n", 1)[0]
    return [re.split(r"\s{2,}", line.strip())[0] for line in block.splitlines()]


def test_the_lines_are_found():
    assert [line.split()[1] for line in commands()] == ["serve", "campaign", "send", "campaign", "campaign"]


@pytest.mark.timeout(60)
def test_the_lines_lead_from_a_campaign_to_a_release(tmp_path, monkeypatch):
    """U1: with the admin's token in KEYVEIL_TOKEN, as the manual says, they hung for minutes."""
    monkeypatch.chdir(tmp_path)
    Path("campaign.toml").write_text(CAMPAIGN)
    Path("pairs.csv").write_text("user,key,value\n" + "".join(f"u{i},maps,{i % 100}\n" for i in range(200)))
    serve, *lines = commands()
    server, said = Process(shlex.split(serve)[-1]), ""
    try:
        monkeypatch.setenv("KEYVEIL_URL", server.url)
        monkeypatch.setenv("KEYVEIL_TOKEN", server.admin)
        for line in lines:
            token = re.search(r"device token, shown this once: (\S+)", said)
            if token:
                line = line.replace("DEVICE_TOKEN", token[1])
            done = CliRunner().invoke(keyveil, shlex.split(line)[1:])
            assert done.exit_code == 0, f"{line}: {done.output} {done.exception}"
            said += done.output
    finally:
        server.stop()
    assert "200 reports accepted, 0 refused, 0 left" in said
    assert Path("release.csv").read_text().splitlines()[0].startswith("key,")
