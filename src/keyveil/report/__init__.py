"""What crosses the wire: byte layouts, the envelope, batches. Knows nothing of the rest of keyveil."""

from keyveil.report.frames import LARGEST_FRAME, MOST_FRAMES, frame, locate_frames, read_frames, to_frames
from keyveil.report.layout import (
    ABSENT,
    MINUS,
    PLUS,
    Labels,
    Layout,
    Row,
    Subset,
    Symbol,
    Trits,
    join_trits,
    spread_bits,
)
from keyveil.report.wire import (
    CAMPAIGN_BYTES,
    HEADER_BYTES,
    REPORT_ID_BYTES,
    VERSION,
    Envelope,
    fresh_id,
    public_word,
    public_words,
)

__all__ = [
    "ABSENT",
    "CAMPAIGN_BYTES",
    "HEADER_BYTES",
    "LARGEST_FRAME",
    "MINUS",
    "MOST_FRAMES",
    "PLUS",
    "REPORT_ID_BYTES",
    "VERSION",
    "Envelope",
    "Labels",
    "Layout",
    "Row",
    "Subset",
    "Symbol",
    "Trits",
    "frame",
    "fresh_id",
    "join_trits",
    "locate_frames",
    "public_word",
    "public_words",
    "read_frames",
    "spread_bits",
    "to_frames",
]
