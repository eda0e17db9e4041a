"""A collector as a process of its own, to be asked over HTTP, stopped and killed."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

MAIN = "from keyveil.cli import main; main()"


class Process:
    """`keyveil serve`, listening; the admin token is kept from the first start.

    `before` is what the process does first, in Python; `command` another that listens, as `relay` does.
    """

    def __init__(self, store, *options, port=0, admin=None, env=None, before="", command="serve"):
        self.child = subprocess.Popen(
            [sys.executable, "-c", before + MAIN, command, "--store", store, "--port", str(port), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        self.admin, self.url, self.log, self.said = admin, None, [], []
        # The token is printed before the address, so it is never lost to a kill after that.
        for line in self.child.stdout:
            self.said.append(line)
            if line.startswith("admin token"):
                self.admin = line.split()[-1]
            if line.startswith("listening on"):
                self.url = line.split()[-1]
                break
        if self.url is None:
            self.child.wait()
            why = self.child.stderr.read()
            self.child.stdout.close()
            self.child.stderr.close()
            raise RuntimeError(why)
        self.port = int(self.url.rpartition(":")[2])
        self._reader = threading.Thread(target=self._drain, daemon=True)
        self._reader.start()
        self._wait()

    def _drain(self):
        for line in self.child.stderr:
            self.log.append(line)

    def _wait(self):
        for _ in range(400):
            try:
                if self.ask("GET", "/healthz")[0] == 200:
                    return
            except OSError:
                time.sleep(0.01)
        raise RuntimeError("the collector does not answer")

    def ask(self, method, path, body=None, *, token=None, headers=None, timeout=30):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            sent = dict(headers or {})
            if token:
                sent["Authorization"] = f"Bearer {token}"
            if isinstance(body, dict):
                body = json.dumps(body).encode()
                sent["Content-Type"] = "application/json"
            connection.request(method, path, body=body, headers=sent)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def create(self, campaign, **terms):
        body = {"campaign": json.loads(campaign.canonical_json), "terms": terms}
        status, said = self.ask("POST", "/v1/campaigns", body, token=self.admin)
        assert status in (200, 201), said
        return json.loads(said)

    def memory(self):
        """Bytes of the process that are in memory."""
        status = Path(f"/proc/{self.child.pid}/status").read_text()
        return 1024 * int(status.partition("VmRSS:")[2].split()[0])

    def kill(self):
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()
        self._close()

    def stop(self, timeout=15):
        """SIGTERM; the seconds until it was gone."""
        started = time.monotonic()
        self.child.send_signal(signal.SIGTERM)
        self.child.wait(timeout)
        seconds = time.monotonic() - started
        self._close()
        return seconds

    def _close(self):
        self._reader.join(5)
        self.child.stdout.close()
        self.child.stderr.close()
