"""Files of reports: Parquet with one binary column `report`; campaign and round in the metadata.

Needs pyarrow, and is imported only by those who write or read such files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet

COLUMN = "report"


def write_reports(out: Any, blocks: Iterable[bytes], *, campaign: str, round: int, length: int) -> int:
    """Blocks of joined reports of one length, as they come; how many there were.

    >>> import io
    >>> out = io.BytesIO()
    >>> write_reports(out, [b"abcd", b"ef"], campaign="c", round=1, length=2)
    3
    >>> pyarrow.parquet.read_table(out).column(COLUMN).to_pylist()
    [b'ab', b'cd', b'ef']
    """
    said = {"keyveil": json.dumps({"campaign": campaign, "round": round})}
    schema = pa.schema([pa.field(COLUMN, pa.binary(), nullable=False)], metadata=said)
    total = 0
    # Noise neither compresses nor repeats.
    with pyarrow.parquet.ParquetWriter(out, schema, compression="none", use_dictionary=False) as file:
        for block in blocks:
            count = len(block) // length
            fixed = pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(length), count, [None, pa.py_buffer(block)]
            )
            file.write_table(pa.table([fixed.cast(pa.binary())], schema=schema))
            total += count
    return total
