"""What is counted about the collector itself, as Prometheus reads it. No label names a person or a device."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Histogram:
    """How often something took at most so long."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_BUCKETS) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """One more."""
        self._counts[bisect_left(_BUCKETS, seconds)] += 1
        self._sum += seconds

    def lines(self, name: str) -> list[str]:
        """In Prometheus' words."""
        said, below = [], 0
        for bound, n in zip((*map(str, _BUCKETS), "+Inf"), self._counts, strict=True):
            below += n
            said.append(f'{name}_bucket{{le="{bound}"}} {below}')
        return [*said, f"{name}_sum {self._sum:.6f}", f"{name}_count {below}"]


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
        self._by_campaign: dict[str, Counter[str]] = {}
        self.commit = Histogram()
        self.groups = 0
        self.gauges: dict[str, tuple[str, Callable[[], float]]] = {}

    def count_reports(self, statuses: dict[str, int]) -> None:
        """What became of reports."""
        with self._lock:
            self._reports.update(statuses)

    def count_campaign(self, campaign: str, statuses: Mapping[str, int]) -> None:
        """What became of reports to one campaign."""
        with self._lock:
            self._by_campaign.setdefault(campaign, Counter()).update(statuses)

    def of_campaign(self, campaign: str) -> dict[str, int]:
        """What became of a campaign's reports since this process started."""
        with self._lock:
            return dict(self._by_campaign.get(campaign, ()))

    def count_problem(self, code: str) -> None:
        """A request that was refused."""
        with self._lock:
            self._problems[code] += 1

    def committed(self, seconds: float) -> None:
        """A group that was written."""
        with self._lock:
            self.groups += 1
            self.commit.observe(seconds)

    def reports(self, status: str) -> int:
        """How many reports had this status."""
        return self._reports[status]

    def text(self) -> str:
        """The page /metrics."""
        with self._lock:
            reports, problems = dict(self._reports), dict(self._problems)
            commit = self.commit.lines("keyveil_commit_seconds")
        lines = [
            "# HELP keyveil_reports_total Reports by what became of them.",
            "# TYPE keyveil_reports_total counter",
            *(f'keyveil_reports_total{{status="{status}"}} {n}' for status, n in sorted(reports.items())),
            "# HELP keyveil_refused_requests_total Requests refused as a whole, by code.",
            "# TYPE keyveil_refused_requests_total counter",
            *(f'keyveil_refused_requests_total{{code="{code}"}} {n}' for code, n in sorted(problems.items())),
            "# HELP keyveil_commit_seconds Time from the start of a group's transaction to its commit.",
            "# TYPE keyveil_commit_seconds histogram",
            *commit,
        ]
        for name, (what, value) in self.gauges.items():
            lines += [f"# HELP {name} {what}", f"# TYPE {name} gauge", f"{name} {value():g}"]
        return "\n".join(lines) + "\n"
