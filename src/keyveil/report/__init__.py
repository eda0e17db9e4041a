"""What crosses the wire: byte layouts and the envelope. Knows nothing of the rest of keyveil."""

from keyveil.report.layout import ABSENT, MINUS, PLUS, Layout, Row, Symbol, Trits
from keyveil.report.wire import CAMPAIGN_BYTES, HEADER_BYTES, REPORT_ID_BYTES, Envelope

__all__ = [
    "ABSENT",
    "CAMPAIGN_BYTES",
    "HEADER_BYTES",
    "MINUS",
    "PLUS",
    "REPORT_ID_BYTES",
    "Envelope",
    "Layout",
    "Row",
    "Symbol",
    "Trits",
]
