"""Stores that older commits wrote (scripts/old_stores.py), and what must be found in them."""

import base64
import gzip
import json
import sqlite3
from pathlib import Path

import psycopg

from keyveil.campaign import Campaign

FOLDER = Path(__file__).resolve().parent.parent / "collector" / "stores"
SCHEMAS = (1, 2)


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
        self.campaign = Campaign.from_fields(json.loads(said["config"]))
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


def _read(name):
    return gzip.decompress((FOLDER / name).read_bytes()).decode()
