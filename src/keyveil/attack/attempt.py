"""What an attack achieved, beside what theory lets any attack achieve."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attack, measured.

    >>> Attempt(kind="poisoning", name="maximal gain", success=0.04, bound=0.041, unit="frequency").words
    'maximal gain: frequency moved by 0.04, at most 0.041 is possible'
    """

    kind: str
    name: str
    success: float
    bound: float
    unit: str
    about: str = ""
    """The key it is about, if it is about one."""
    alarm: bool | None = None
    """Whether the tests of the noise raised an alarm; None where nothing was tested."""
    p: float | None = None
    note: str = ""

    @property
    def words(self) -> str:
        """One sentence."""
        about = f' on "{self.about}"' if self.about else ""
        if self.unit == "right guesses":
            said = f"right in {self.success:.1%}, at most {self.bound:.1%} is possible"
        elif self.unit == "reports":
            said = f"{self.success:g} counted, at most {self.bound:g} possible"
        else:
            said = f"{self.unit} moved by {self.success:.3g}, at most {self.bound:.3g} is possible"
        seen = "" if self.alarm is None else "; detected" if self.alarm else "; not detected"
        return f"{self.name}{about}: {said}{seen}" + (f" ({self.note})" if self.note else "")

    def to_fields(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)
