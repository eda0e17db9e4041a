"""A PostgreSQL of the tests' own: made in a folder, on the loopback, ended with the tests."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg


def find_programs():
    """The folder of initdb and postgres, or None."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    return places[-1].parent if places else None


class Database:
    """A server that can be killed and started again on the same data."""

    def __init__(self, programs, parent=None):
        self.programs = programs
        # A socket's path must be short, so the folder is not pytest's.
        self.folder = Path(tempfile.mkdtemp(prefix="kvpg-", dir=parent))
        self.demote = {}
        if os.getuid() == 0:
            # PostgreSQL refuses to run as root.
            who = pwd.getpwnam("postgres" if _is_user("postgres") else "nobody")
            os.chown(self.folder, who.pw_uid, who.pw_gid)
            self.demote = {"user": who.pw_uid, "group": who.pw_gid}
        self.port = _free_port()
        self.run(
            "initdb", "-D", f"{self.folder}/data", "-U", "keyveil", "-A", "trust", "-E", "UTF8", "--locale=C"
        )
        self.process = None
        self.start()

    def run(self, program, *args):
        subprocess.run(
            [self.programs / program, *args], check=True, capture_output=True, cwd=self.folder, **self.demote
        )

    def start(self):
        self.process = subprocess.Popen(
            [
                self.programs / "postgres",
                *("-D", f"{self.folder}/data", "-p", str(self.port), "-k", str(self.folder)),
                *("-c", "listen_addresses=127.0.0.1", "-c", "max_connections=100"),
                # Shared memory as files of the folder: nothing stays behind when the server is killed.
                *("-c", "dynamic_shared_memory_type=mmap"),
                # As docs/operate.md says: a checkpoint forced by a full log holds up every commit.
                *("-c", "max_wal_size=8GB"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            start_new_session=True,
            **self.demote,
        )
        for _ in range(600):
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.05)
        raise RuntimeError("PostgreSQL did not start")

    def url(self, name):
        return f"postgresql://keyveil@127.0.0.1:{self.port}/{name}"

    def fresh(self):
        """The address of an empty database."""
        name = f"t{os.urandom(6).hex()}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"create database {name}")
        return self.url(name)

    def kill(self):
        """As a power cut would: every process of the server, at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def close(self):
        # Nothing of it is kept, so nothing need be written down.
        if self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def _is_user(name):
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]
