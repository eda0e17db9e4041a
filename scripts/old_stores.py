"""Write tests/collector/stores: small stores as older commits of this repository left them.

    python scripts/old_stores.py                 # needs git and PostgreSQL's programs; a minute
    python scripts/old_stores.py 3               # one schema alone; the others stay as they are
    python scripts/old_stores.py outcomes        # outcomes in today's format, before it becomes an old one

For each commit its collector runs from an archive of its own source, takes campaigns and reports over HTTP
and is killed, so that what it had not flushed stays where it was. What it held is written down twice: the
store as SQL text (`schema-N-KIND.sql.gz`), and what must be found in it (`schema-N-KIND.json.gz`): tokens,
tallies, releases, reports that were sent and reports that were not.
"""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import os
import re
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "collector" / "stores"
# The last commit that wrote a schema.
COMMITS = {1: "b527101", 2: "5629bb5", 3: "b066b9f", 4: "5b86e5c", 5: "60f4aa0", 6: "a96ac85", 7: "7d0622f"}
APPLICATION = 0x6B76636C
MAIN = "from keyveil.cli import main; main()"
WHO = {"owner": "tests", "purpose": "to be read by later versions", "expires": "2099-01-01"}
ALL = 100
KEYS = [f"app-{i}" for i in range(12)]
# Between them every class that an outcome may hold.
OUTCOMES: dict[str, dict[str, Any]] = {
    "kvue": {"pairs_per_user": 1},
    "bucket": {"rho": 1.0},
    "ue-sw": {},
    "privkvm-star": {"pairs_per_user": 1},
    "auto": {"pairs_per_user": 2},
    "auto, two rounds": {
        "pairs_per_user": 6,
        "rounds": 2,
        "users": 2000,
        "keys": [f"k{i}" for i in range(40)],
    },
    "ks-grr": {},
}
# By name: the campaign's own fields, its terms, how many reports go to each round, and how many are closed.
CAMPAIGNS: dict[str, tuple[dict[str, Any], dict[str, Any], int, int]] = {
    "one round": ({"mechanism": "pckv-ue"}, {}, 120, 0),
    "nobody yet": ({"mechanism": "pckv-grr"}, {}, 0, 0),
    "issued": ({"mechanism": "pckv-ue", "epsilon": 2.0}, {"ids": "issued"}, 30, 0),
    "finished": ({"mechanism": "kvue"}, {}, 80, ALL),
    "auto open": ({"mechanism": "auto", "epsilon": 3.0}, {}, 60, 1),
    "auto finished": ({"mechanism": "auto", "epsilon": 3.0}, {}, 70, ALL),
    "privkvm open": ({"mechanism": "privkvm", "pairs_per_user": 1, "rounds": 3}, {}, 50, 1),
    "ks-grr finished": ({"mechanism": "ks-grr"}, {}, 60, ALL),
    "star open": ({"mechanism": "privkvm-star", "pairs_per_user": 1}, {}, 40, 0),
}


# --- run under the older source ---


class Asker:
    """A collector on this machine."""

    def __init__(self, port: int, admin: str) -> None:
        self.port, self.admin = port, admin

    def __call__(self, method: str, path: str, body: Any = None, *, token: str | None = None) -> Any:
        """The answer's JSON; a refusal ends the script."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Authorization": f"Bearer {token or self.admin}"}
        if isinstance(body, dict):
            body, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        said = answer.read()
        connection.close()
        assert answer.status in (200, 201, 204), (path, answer.status, said)
        return json.loads(said) if said else None


def fill(ask: Asker) -> dict[str, Any]:
    """Make the campaigns and send their reports; what must be found again."""
    made = {name: _fill_campaign(ask, name, *said) for name, said in CAMPAIGNS.items()}
    # A token that was revoked, and reports that came after the last administrative act: they are not flushed.
    revoked = ask("POST", "/v1/tokens", {"role": "analyst"})
    ask("DELETE", f"/v1/tokens/{revoked['id']}")
    for one in made.values():
        _send_last(ask, one)
        path = f"/v1/campaigns/{one['id']}"
        one["rounds"] = ask("GET", f"{path}/rounds")["rounds"]
        one["tallies"] = [ask("GET", f"{path}/rounds/{row['number']}/tally") for row in one["rounds"]]
    return {"admin": ask.admin, "revoked": revoked["token"], "campaigns": made}


def _fill_campaign(
    ask: Asker, name: str, fields: dict[str, Any], terms: dict[str, Any], count: int, closed: int
) -> dict[str, Any]:
    from keyveil import Campaign
    from keyveil.protocols import Round, replay

    issues_ids = terms.get("ids") == "issued"
    by_nonce = issues_ids and "ids" in Campaign.__dataclass_fields__
    if by_nonce:
        # Since schema 4 it is said in the campaign, and a nonce has one id.
        fields, terms = {**fields, **terms}, {}
    common = {"name": name, "epsilon": 1.0, "keys": KEYS, "value_range": [0, 60], "pairs_per_user": 2}
    campaign = Campaign.from_fields({**common, **WHO, **fields})
    created = ask("POST", "/v1/campaigns", {"campaign": json.loads(campaign.canonical_json), "terms": terms})
    token, tallies, sent, fresh = created["device_token"], [], [], []
    path = f"/v1/campaigns/{campaign.id}"
    for number in range(1, closed + 2):
        asked = replay(campaign.protocol(), campaign.id, tallies)
        if not isinstance(asked, Round):
            break
        reports = _reports(campaign, asked, count + 10)
        if issues_ids:
            asking = [f"1&nonce={os.urandom(16).hex()}" for _ in reports] if by_nonce else [f"{len(reports)}"]
            ids = [id for n in asking for id in ask("POST", f"{path}/ids?count={n}", token=token)["ids"]]
            pairs = zip(reports, ids, strict=True)
            reports = [report[:19] + bytes.fromhex(issued) + report[35:] for report, issued in pairs]
        # Half of the round that stays open is sent last.
        now = reports[:count] if number <= closed else reports[: count // 2]
        for at in range(0, len(now), 15):
            _send(ask, path, token, now[at : at + 15])
        sent, fresh = reports[:count], reports[count:]
        if number <= closed:
            ask("POST", f"{path}/rounds/{number}/close")
            tallies.append(campaign.tally(now, asked))
    finished = ask("GET", path)["round"] is None
    return {
        "id": campaign.id,
        "config": campaign.canonical_json,
        "token": token,
        "finished": finished,
        "release": ask("GET", f"{path}/release?post=published") if finished else None,
        "sent": [base64.b64encode(report).decode() for report in sent],
        "fresh": [base64.b64encode(report).decode() for report in fresh],
    }


def _reports(campaign: Any, asked: Any, count: int) -> list[bytes]:
    from keyveil.client import Reporter

    keys, device = campaign.keys, Reporter(campaign)
    held = [{keys[i % 3]: 50.0, keys[3 + i % 5]: 10.0} if i % 2 else {keys[0]: 55.0} for i in range(count)]
    return [device.report(each, asked) for each in held]


def _send(ask: Asker, path: str, token: str, reports: list[bytes]) -> None:
    from keyveil.report import to_frames

    statuses = ask("POST", f"{path}/reports", to_frames(reports), token=token)["reports"]
    assert statuses == ["accepted"] * len(reports), statuses


def _send_last(ask: Asker, one: dict[str, Any]) -> None:
    if not one["finished"]:
        reports = [base64.b64decode(report) for report in one["sent"]]
        for report in reports[len(reports) // 2 :]:
            _send(ask, f"/v1/campaigns/{one['id']}", one["token"], [report])


# --- run under today's ---


def main(schemas: list[int]) -> None:
    """These schemas, on both kinds of store."""
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from databases import Database, find_programs

    programs = find_programs()
    assert programs is not None, "PostgreSQL's programs are not here; see scripts/find_postgres.sh"
    FOLDER.mkdir(exist_ok=True)
    database = Database(programs)
    try:
        for schema in schemas:
            commit = COMMITS[schema]
            with tempfile.TemporaryDirectory() as folder:
                source = _archive(commit, Path(folder))
                file = Path(folder) / "store.db"
                held = _run(source, f"sqlite:///{file}")
                _write(f"schema-{schema}-sqlite", {"commit": commit, **held}, _sqlite_text(schema, file))
                url = database.fresh()
                held = _run(source, url)
                _write(
                    f"schema-{schema}-postgresql", {"commit": commit, **held}, _postgres_text(programs, url)
                )
    finally:
        database.close()


def write_outcomes() -> None:
    """What campaigns of today find, as it is stored: later versions must read it."""
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from collecting import answers, make_question

    from keyveil.collector.campaigns.outcomes import what_follows
    from keyveil.collector.store.outcomes import KINDS, VERSION, pack_outcome
    from keyveil.release import release_found
    from keyveil.rounds import Round

    found = {}
    for name, options in OUTCOMES.items():
        campaign = make_question(name.partition(",")[0], epsilon=3.0, **{"keys": KEYS, **options})
        history, asked = [], campaign.first_round()
        while isinstance(asked, Round):
            history.append((asked, campaign.tally(answers(campaign, asked, 90), asked)))
            asked = what_follows(campaign, history)
        release = release_found(campaign, asked.outcome, epsilon_exact=asked.epsilon_exact, post="published")
        found[name] = {
            "config": campaign.canonical_json,
            "body": base64.b64encode(pack_outcome(asked).body).decode(),
            "release": json.loads(release.to_json()),
        }
    heads = "".join(base64.b64decode(one["body"])[4:].partition(b"\n")[0].decode() for one in found.values())
    missing = [kind for kind in KINDS if f'"kind": "{kind}"' not in heads]
    assert not missing, f"no outcome holds {missing}; chance may have it, try again"
    path = FOLDER / f"outcomes-{VERSION}.json.gz"
    path.write_bytes(gzip.compress(json.dumps(found, indent=1).encode(), 9, mtime=0))
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")


def _archive(commit: str, folder: Path) -> Path:
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def _run(source: Path, store: str) -> dict[str, Any]:
    """What a collector of that source was given before it was killed."""
    env = {**os.environ, "PYTHONPATH": str(source)}
    with _serving(store, env) as (port, admin):
        said = subprocess.run(
            [sys.executable, __file__, "fill", str(port), admin], env=env, check=True, stdout=subprocess.PIPE
        )
    return dict(json.loads(said.stdout))


@contextmanager
def _serving(store: str, env: dict[str, str]) -> Iterator[tuple[int, str]]:
    child = subprocess.Popen(
        [sys.executable, "-c", MAIN, "serve", "--store", store, "--port", "0"],
        stdout=subprocess.PIPE,
        env=env,
        text=True,
    )
    assert child.stdout is not None
    try:
        admin = child.stdout.readline().split()[-1]
        port = int(child.stdout.readline().rpartition(":")[2])
        yield port, admin
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def _sqlite_text(schema: int, path: Path) -> str:
    file = sqlite3.connect(path)
    table = "young" if schema < 3 else "memtable_ids"
    (unflushed,) = file.execute(f"select count(*) from {table}").fetchone()
    assert unflushed, "everything was flushed"
    text = "\n".join((f"pragma application_id = {APPLICATION};", *file.iterdump(), ""))
    file.close()
    return text


def _postgres_text(programs: Path, url: str) -> str:
    dumped = subprocess.run(
        [programs / "pg_dump", "--inserts", "--no-owner", "--no-privileges", url],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    # What only psql understands, and settings that older servers do not know.
    return re.sub(r"^(\\|--|SET transaction_timeout).*\n|^\n", "", dumped, flags=re.MULTILINE)


def _write(name: str, held: dict[str, Any], text: str) -> None:
    for ending, said in (("json", json.dumps(held, indent=1)), ("sql", text)):
        path = FOLDER / f"{name}.{ending}.gz"
        path.write_bytes(gzip.compress(said.encode(), 9, mtime=0))
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    if sys.argv[1:2] == ["outcomes"]:
        write_outcomes()
    elif sys.argv[1:2] == ["fill"]:
        print(json.dumps(fill(Asker(int(sys.argv[2]), sys.argv[3]))))
    else:
        main(list(map(int, sys.argv[1:])) or list(COMMITS))
