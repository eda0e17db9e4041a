"""A collector of a few lines that remembers every byte, and a campaign to send it."""

import json
import threading
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from keyveil import Campaign
from keyveil.mechanisms import build
from keyveil.report import read_frames
from keyveil.rounds import Round
from keyveil.sealing import SUITE


def make_campaign(mechanism="pckv-ue", **changes):
    fields = {
        "name": "apps",
        "epsilon": 1.0,
        "keys": tuple(f"app-{i}" for i in range(40)),
        "value_range": (0, 60),
        "pairs_per_user": 3,
        "mechanism": mechanism,
    }
    return Campaign(**(fields | changes))


def cheap_round(campaign, number):
    """A round that costs one part in 65,536 of epsilon 32: as many as there are numbers can be answered."""
    mechanism = build("pckv-ue", Fraction(1, 2048), n_keys=40, pairs_per_user=3)
    return Round(campaign=campaign.id, number=number, purpose="collect", mechanism=mechanism)


class Collector:
    """Real HTTP on the loopback. `script` holds the next answers: a status, with headers, with a body.

    As good as a relay, for devices: it takes what is sealed as it takes reports. Where `cuts` says so it
    keeps a batch and answers nothing. Of any series the campaign is the open wave.
    """

    def __init__(self):
        self.received, self.posts, self.script, self.campaign, self.round = [], [], [], None, None
        self.series = None
        self.keys, self.tokens, self.cuts = [], set(), lambda: False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.tokens.add(self.headers["Authorization"])
                reports = list(read_frames(body))
                outer.posts.append((self.path, len(reports)))
                answer = outer.script.pop(0) if outer.script else 200
                status, headers, *said = answer if isinstance(answer, tuple) else (answer, {})
                seen = set(outer.received)
                statuses = ["duplicate" if report in seen else "accepted" for report in reports]
                if status == 200:
                    outer.received += reports
                    if outer.cuts():
                        self.close_connection = True
                        return
                self.answer(status, headers, *said or [json.dumps({"reports": statuses}).encode()])

            def do_GET(self):
                outer.tokens.add(self.headers["Authorization"])
                if self.path == "/v1/keys":
                    said = {"suite": SUITE, "keys": [{"public": key.public.hex()} for key in outer.keys]}
                    self.answer(200, {}, json.dumps(said).encode())
                    return
                view = {"campaign": outer.campaign, "round": outer.round}
                if self.path.startswith("/v1/series/"):
                    said = {"id": self.path.rpartition("/")[2], "campaign": outer.series, "state": "open"}
                    view = {**said, "wave": None if outer.campaign is None else view}
                self.answer(200, {}, json.dumps(view).encode())

            def answer(self, status, headers, body):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_):
                """A device that was killed in the middle of a request is no news."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
