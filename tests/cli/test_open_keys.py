"""`keyveil simulate --open`, `keyveil plan --open`, and `keyveil send` where nobody listed the keys."""

import json
import tomllib

import pytest
from click.testing import CliRunner
from collecting import WHO
from serving import Process

from keyveil import Campaign
from keyveil.cli.app import keyveil
from keyveil.domain.texts import THE_REST
from keyveil.plan.searching import Search


def pairs_file(folder):
    path = folder / "pairs.csv"
    rows = [f"{user},{key},{user % 7}" for user in range(400) for key in ("ab", "cd")[: 1 + user % 2]]
    path.write_text("\n".join(["user,key,value", *rows]) + "\n")
    return path


def run(*words):
    return CliRunner().invoke(keyveil, [str(word) for word in words])


def test_a_search_is_simulated_and_scored(tmp_path):
    path = pairs_file(tmp_path)
    done = run("simulate", path, "--open", "--epsilon", "6", "--longest", "24", "--repeats", 1, "--json")
    assert done.exit_code == 0, done.output
    [cell] = json.loads(done.stdout)
    assert cell["mechanism"] == "open"
    assert "ab" in cell["found"]
    assert cell["false_discoveries"] == 0
    assert 0.5 <= cell["recall_top"] <= 1
    shown = run("simulate", path, "--open", "--epsilon", "6", "--longest", "24", "--repeats", 1)
    assert "recall top 50" in shown.output


def test_what_does_not_go_with_a_search_is_refused_in_words(tmp_path):
    path = pairs_file(tmp_path)
    both = run("simulate", path, "--open", "--mechanism", "kvue", "--epsilon", "1")
    assert "leave the other options out" in str(both.exception)
    assert "must name at least one" in str(run("simulate", path, "--epsilon", "1").exception)
    assert 'keys = "open"' in str(run("simulate", path, "--mechanism", "open", "--epsilon", "1").exception)
    campaign = tmp_path / "c.toml"
    campaign.write_text(
        'name = "c"\nepsilon = 2.0\nkeys = "open"\nmechanism = "open"\nlongest = 24\n'
        "pairs_per_user = 2\nvalue_range = [0, 7]\n"
    )
    refused = run("perturb", campaign, path, "-o", tmp_path / "r.parquet")
    assert "use `keyveil send`" in str(refused.exception)


ASKED = ("plan", "--open", "--pairs-per-user", 3, "--longest", 48)


def test_a_plan_says_what_will_be_found_and_writes_the_campaign(tmp_path):
    path, asked = tmp_path / "words.toml", (*ASKED, "--users", 200_000, "--epsilon", 3)
    done = run(*asked, "--json", "--write", path, "--value-range", "0,60", "--unit", "minutes")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    campaign = Campaign(**tomllib.loads(path.read_text()))
    search = Search.of(epsilon=campaign.epsilon, longest=48, pairs_per_user=3, users=campaign.users)
    assert campaign.first_round().mechanism.bits == search.levels()[0].bits
    assert said["detectable"] == search.detectable()
    assert [level["bits"] for level in said["levels"]] == [level.bits for level in search.levels()]
    assert sum(level["share"] for level in said["levels"]) + said["measuring_share"] == pytest.approx(1)
    assert (campaign.value_range, campaign.unit, campaign.users) == ((0, 60), "minutes", 200_000)
    shown = run(*asked)
    assert f"{said['detectable']:.2%}" in shown.output
    assert "200,000        1.5" in shown.output
    assert "every user answers one round" in shown.output


def test_a_plan_solves_for_users_or_epsilon_where_a_popularity_is_given():
    users = json.loads(run(*ASKED, "--popularity", 0.02, "--epsilon", 3, "--json").stdout)
    assert users["detectable"] <= 0.02 < 1.01 * users["detectable"]
    epsilon = json.loads(run(*ASKED, "--popularity", 0.02, "--users", users["users"], "--json").stdout)
    assert epsilon["epsilon"] == pytest.approx(3, abs=0.02)
    both = (*ASKED, "--users", users["users"], "--epsilon", 3, "--popularity")
    assert "are enough for keys that 2 % of them hold" in run(*both, 0.02).output
    assert "do not find keys that 1 % of them hold" in run(*both, 0.01).output


def test_a_plan_of_a_search_refuses_what_is_said_of_lists():
    assert "leave out --keys, --top" in str(
        run(*ASKED, "--users", 9, "--epsilon", 1, "--keys", 3, "--top", 2).exception
    )
    assert "for --popularity" in str(
        run("plan", "--users", 9, "--keys", 3, "--epsilon", 1, "--popularity", 0.1).exception
    )
    for lacking in ((), ("--users", 9), ("--epsilon", 1), ("--popularity", 0.1)):
        assert "or one of them and --popularity" in str(run(*ASKED, *lacking).exception)
    assert "from 2 to 512" in str(
        run("plan", "--open", "--users", 9, "--epsilon", 1, "--longest", 1).exception
    )
    nobody = run(*ASKED, "--users", 9, "--epsilon", 5)
    assert "nothing" in nobody.output
    assert "caps=Caps(campaign=5)" in nobody.output


def test_a_file_is_sent_level_by_level_and_everybody_answers_once(tmp_path):
    path, process = pairs_file(tmp_path), Process(f"sqlite:///{tmp_path}/c.db")
    campaign = Campaign(
        **WHO, name="words", epsilon=4.0, keys="open", longest=24, mechanism="open", pairs_per_user=2,
        value_range=(0, 6), users=400,
    )  # fmt: skip
    asked = {"campaign": json.loads(campaign.canonical_json), "terms": {"uploads": "open"}}
    status, body = process.ask("POST", "/v1/campaigns", asked, token=process.admin)
    assert status == 201, body
    url = f"{process.url}/v1/campaigns/{campaign.id}"
    while (opened := json.loads(process.ask("GET", f"/v1/campaigns/{campaign.id}")[1])["round"]) is not None:
        sent = run("send", url, path)
        assert sent.exit_code == 0, sent.output
        closed = f"/v1/campaigns/{campaign.id}/rounds/{opened['number']}/close"
        assert process.ask("POST", closed, token=process.admin)[0] == 200
    rounds = json.loads(process.ask("GET", f"/v1/campaigns/{campaign.id}/rounds", token=process.admin)[1])
    assert sum(each["reports"] for each in rounds["rounds"]) == 400
    released = process.ask("GET", f"/v1/campaigns/{campaign.id}/release?format=json", token=process.admin)
    rows = {row["key"]: row for row in json.loads(released[1])["rows"]}
    assert {"ab", THE_REST} <= set(rows)
    assert rows["ab"]["mean_low"] <= 3 <= rows["ab"]["mean_high"]
    process.kill()
