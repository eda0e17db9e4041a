import os
import shutil
from pathlib import Path

import pytest
from collecting import Caller, fast_folder
from databases import Database, find_programs
from parts import lacking


@pytest.fixture(scope="session")
def database():
    programs = find_programs()
    if programs is None:
        lacking("no PostgreSQL; see scripts/find_postgres.sh")
    # In memory where that is possible: a killed server needs no disk, only its files.
    shm = Path("/dev/shm")
    made = Database(programs, shm if os.access(shm, os.W_OK) else None)
    yield made
    made.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request, tmp_path):
    """The address of an empty store, of each kind."""
    if request.param == "postgresql":
        yield request.getfixturevalue("database").fresh()
        return
    folder = fast_folder(tmp_path)
    yield f"sqlite:///{folder}/collector.db"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def caller(store_url):
    made = Caller(store_url)
    yield made
    made.close()
