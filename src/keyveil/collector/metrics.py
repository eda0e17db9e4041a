"""What is counted about the collector itself, as Prometheus reads it. No label names a person or a device."""

from __future__ import annotations

import platform
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import keyveil

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

# What becomes of a report that nobody has to look into.
_NO_FAULT = {"accepted", "duplicate"}


class Histogram:
    """How often something took at most so long."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_BUCKETS) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """One more."""
        self._counts[bisect_left(_BUCKETS, seconds)] += 1
        self._sum += seconds

    def lines(self, name: str, label: str = "") -> list[str]:
        """In Prometheus' words; `label` reads as name="value"."""
        said, below = [], 0
        before, alone = (f"{label},", f"{{{label}}}") if label else ("", "")
        for bound, n in zip((*map(str, _BUCKETS), "+Inf"), self._counts, strict=True):
            below += n
            said.append(f'{name}_bucket{{{before}le="{bound}"}} {below}')
        return [*said, f"{name}_sum{alone} {self._sum:.6f}", f"{name}_count{alone} {below}"]


class Metrics:
    """Counters of one process.

    >>> metrics = Metrics()
    >>> metrics.count_reports({"accepted": 3, "duplicate": 1})
    >>> 'keyveil_reports_total{status="accepted"} 3' in metrics.text()
    True
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reports: Counter[str] = Counter({"accepted": 0, "duplicate": 0})
        self._problems: Counter[str] = Counter()
        self._sealed: Counter[str] = Counter()
        self._by_campaign: dict[str, Counter[str]] = {}
        self._refused_at: dict[str, float] = {}
        self.commit, self.upload = Histogram(), Histogram()
        self._requests: dict[str, Histogram] = {}
        self.groups = 0
        self.build: dict[str, str] = {"version": keyveil.__version__, "python": platform.python_version()}
        self.gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        self.counters: dict[str, tuple[str, Callable[[], float]]] = {}
        """What others count: what it is, and how many."""

    def count_reports(self, statuses: dict[str, int]) -> None:
        """What became of reports."""
        with self._lock:
            self._reports.update(statuses)

    def count_sealed(self, opened: int, refused: Mapping[str, int]) -> None:
        """What became of reports that a relay brought, before they were looked at."""
        with self._lock:
            self._sealed.update({"opened": opened, **refused})

    def count_campaign(self, campaign: str, statuses: Mapping[str, int]) -> None:
        """What became of reports to one campaign, just now."""
        with self._lock:
            self._by_campaign.setdefault(campaign, Counter()).update(statuses)
            if statuses.keys() - _NO_FAULT:
                self._refused_at[campaign] = time.time()

    def of_campaign(self, campaign: str) -> dict[str, int]:
        """What became of a campaign's reports since this process started."""
        with self._lock:
            return dict(self._by_campaign.get(campaign, ()))

    def refused_at(self, campaign: str) -> float | None:
        """When a campaign's report was refused last, since this process started."""
        return self._refused_at.get(campaign)

    def count_problem(self, code: str) -> None:
        """A request that was refused."""
        with self._lock:
            self._problems[code] += 1

    def committed(self, seconds: float) -> None:
        """A group that was written."""
        with self._lock:
            self.groups += 1
            self.commit.observe(seconds)

    def uploaded(self, seconds: Iterable[float]) -> None:
        """How long uploads took from the queue to their commit."""
        with self._lock:
            for each in seconds:
                self.upload.observe(each)

    def answered(self, request: str, seconds: float) -> None:
        """How long a request took that was none."""
        with self._lock:
            self._requests.setdefault(request, Histogram()).observe(seconds)

    def reports(self, status: str) -> int:
        """How many reports had this status."""
        return self._reports[status]

    def text(self) -> str:
        """The page /metrics."""
        with self._lock:
            reports, problems, sealed = dict(self._reports), dict(self._problems), dict(self._sealed)
            campaigns = {id: dict(counts) for id, counts in self._by_campaign.items()}
            commit = self.commit.lines("keyveil_commit_seconds")
            upload = self.upload.lines("keyveil_upload_seconds")
            requests = [
                line
                for request, took in sorted(self._requests.items())
                for line in took.lines("keyveil_request_seconds", f'request="{request}"')
            ]
        build = ",".join(f'{name}="{value}"' for name, value in self.build.items())
        lines = [
            "# HELP keyveil_build_info What runs here.",
            "# TYPE keyveil_build_info gauge",
            f"keyveil_build_info{{{build}}} 1",
            "# HELP keyveil_reports_total Reports by what became of them.",
            "# TYPE keyveil_reports_total counter",
            *(f'keyveil_reports_total{{status="{status}"}} {n}' for status, n in sorted(reports.items())),
            "# HELP keyveil_campaign_reports_total The same by campaign, named by the beginning of its id.",
            "# TYPE keyveil_campaign_reports_total counter",
            *(
                f'keyveil_campaign_reports_total{{campaign="{id[:12]}",status="{status}"}} {n}'
                for id, counts in sorted(campaigns.items())
                for status, n in sorted(counts.items())
            ),
            "# HELP keyveil_sealed_reports_total Reports that relays brought, by whether they opened.",
            "# TYPE keyveil_sealed_reports_total counter",
            *(
                f'keyveil_sealed_reports_total{{status="{status}"}} {n}'
                for status, n in sorted(sealed.items())
            ),
            "# HELP keyveil_refused_requests_total Requests refused as a whole, by code.",
            "# TYPE keyveil_refused_requests_total counter",
            *(f'keyveil_refused_requests_total{{code="{code}"}} {n}' for code, n in sorted(problems.items())),
            "# HELP keyveil_commit_seconds Time from the start of a group's transaction to its commit.",
            "# TYPE keyveil_commit_seconds histogram",
            *commit,
            "# HELP keyveil_upload_seconds Time from an upload's place in the queue to its commit.",
            "# TYPE keyveil_upload_seconds histogram",
            *upload,
            "# HELP keyveil_request_seconds Time of requests that are no uploads.",
            "# TYPE keyveil_request_seconds histogram",
            *requests,
        ]
        for kind, measured in (("gauge", self.gauges), ("counter", self.counters)):
            for name, (what, value) in measured.items():
                lines += [f"# HELP {name} {what}", f"# TYPE {name} {kind}", f"{name} {value():g}"]
        return "\n".join(lines) + "\n"
