"""Three lines in an application: `pip install keyveil`, the standard library alone."""

from pathlib import Path

from keyveil.client import Reporter

URL = "https://collect.example.org/v1/campaigns/ID"
TOKEN = "the device token that `keyveil campaign create` printed"


def report_usage(minutes: dict[str, float], *, has_said_yes: bool) -> None:
    """Answer the campaign's question once, if the person has said yes; never raises, never waits long."""
    device = Reporter.connect(URL, ledger=Path.home() / ".example" / "keyveil.db", token=TOKEN)
    if has_said_yes:
        device.enable()
    device.submit(minutes)
    device.upload(timeout=5)


if __name__ == "__main__":
    report_usage({"search": 12.0, "editor": 48.0}, has_said_yes=True)
