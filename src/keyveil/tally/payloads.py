"""Many answers in one buffer: where each begins, and how long all are.

Reports arrive in large buffers (an Arrow column, a joined block). Answers are counted where they lie;
nothing is copied unless a loop may look behind the last of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Payloads:
    """Answers of `n_bytes` each, at ascending `starts` of `data`.

    >>> two = Payloads.of([b"ab", b"cd"], n_bytes=2)
    >>> len(two), two[1], two.matrix().tolist()
    (2, b'cd', [[97, 98], [99, 100]])
    """

    data: Bytes
    starts: Ints
    n_bytes: int

    @classmethod
    def of(cls, payloads: Sequence[bytes], n_bytes: int) -> Payloads:
        """Payloads that all have `n_bytes`."""
        data = np.frombuffer(b"".join(payloads), dtype=np.uint8)
        return cls(data=data, starts=n_bytes * np.arange(len(payloads), dtype=np.int64), n_bytes=n_bytes)

    @classmethod
    def of_matrix(cls, matrix: Bytes) -> Payloads:
        """One payload a row."""
        n, n_bytes = matrix.shape
        starts = n_bytes * np.arange(n, dtype=np.int64)
        return cls(data=np.ascontiguousarray(matrix).reshape(-1), starts=starts, n_bytes=n_bytes)

    def __len__(self) -> int:
        return int(self.starts.size)

    def __getitem__(self, place: int) -> bytes:
        start = int(self.starts[place])
        return self.data[start : start + self.n_bytes].tobytes()

    def only(self, kept: Mask) -> Payloads:
        """Those that are kept."""
        return self if kept.all() else replace(self, starts=self.starts[kept])

    def part(self, first: int, last: int) -> Payloads:
        """From one place to before another."""
        return replace(self, starts=self.starts[first:last])

    def matrix(self) -> Bytes:
        """One row each; a view where they lie evenly, a copy where they do not."""
        n, width = len(self), self.n_bytes
        if n == 0 or width == 0:
            return np.zeros((n, width), dtype=np.uint8)
        step = int(self.starts[1] - self.starts[0]) if n > 1 else width
        if step > 0 and (n < 3 or bool((np.diff(self.starts) == step).all())):
            view: Bytes = np.lib.stride_tricks.as_strided(
                self.data[int(self.starts[0]) :], shape=(n, width), strides=(step, 1), writeable=False
            )
            return view
        copied: Bytes = self.data[self.starts[:, None] + np.arange(width)]
        return copied

    def padded(self, width: int) -> Payloads:
        """Copies, each in `width` bytes of its own."""
        rows = np.zeros((len(self), width), dtype=np.uint8)
        rows[:, : self.n_bytes] = self.matrix()
        starts = width * np.arange(len(self), dtype=np.int64)
        return Payloads(data=rows.reshape(-1), starts=starts, n_bytes=self.n_bytes)
