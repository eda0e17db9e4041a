"""Stores that older commits wrote (scripts/old_stores.py), and what must be found in them."""

import base64
import gzip
import json
import sqlite3
from pathlib import Path

import psycopg
import pytest

from keyveil.campaign import Campaign

FOLDER = Path(__file__).resolve().parent.parent / "collector" / "stores"
SCHEMAS = (1, 2, 3, 4, 5, 6, 7)


class OldStore:
    """A store of an older schema at `url`."""

    def __init__(self, schema, kind, url):
        self.schema, self.kind, self.url = schema, kind, url
        held = json.loads(_read(f"schema-{schema}-{kind}.json.gz"))
        self.admin, self.revoked = held["admin"], held["revoked"]
        self.campaigns = {name: OldCampaign(said) for name, said in held["campaigns"].items()}


class OldCampaign:
    """A campaign of it: `sent` are the last round's reports, `fresh` ones that were not sent."""

    def __init__(self, said):
        self.id, self.token, self.is_finished = said["id"], said["token"], said["finished"]
        self.campaign = Campaign.from_said(json.loads(said["config"]))
        self.rounds, self.tallies, self.release = said["rounds"], said["tallies"], said["release"]
        self.sent, self.fresh = (list(map(base64.b64decode, said[name])) for name in ("sent", "fresh"))


def load_embedded(schema, path):
    """The store of a schema as a SQLite file."""
    file = sqlite3.connect(path)
    file.executescript(_read(f"schema-{schema}-sqlite.sql.gz"))
    file.close()
    return OldStore(schema, "sqlite", f"sqlite:///{path}")


def load_shared(schema, url):
    """The store of a schema in an empty PostgreSQL database."""
    with psycopg.connect(url) as connection:
        connection.execute(_read(f"schema-{schema}-postgresql.sql.gz"))
    return OldStore(schema, "postgresql", url)


def check(caller, old):
    """All that the store held is there, and known again."""
    for one in old.campaigns.values():
        for tally in one.tallies:
            number = tally["question"].rpartition("/")[2]
            path = f"/v1/campaigns/{one.id}/rounds/{number}"
            assert caller("GET", f"{path}/tally", token=old.admin).json == tally
            recount = caller("POST", f"{path}/recount", token=old.admin).json
            assert (recount["agrees"], recount["tally_reports"]) == (True, tally["n_reports"])
        assert caller("GET", f"/v1/campaigns/{one.id}/rounds", token=old.admin).json["rounds"] == one.rounds
        if one.sent:
            assert caller.send(one.campaign, one.sent, token=one.token) == ["duplicate"] * len(one.sent)
        if one.is_finished:
            release = caller("GET", f"/v1/campaigns/{one.id}/release?post=published", token=old.admin).json
            assert release["metadata"]["users"] == one.release["metadata"]["users"]
            frequencies = [[row["frequency"] for row in said["rows"]] for said in (release, one.release)]
            assert frequencies[0] == pytest.approx(frequencies[1], abs=1e-9)


def _read(name):
    return gzip.decompress((FOLDER / name).read_bytes()).decode()
