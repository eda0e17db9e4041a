"""Parts that tests need and a machine may lack: a browser, a database, a runtime."""

import os
from typing import NoReturn

import pytest


def lacking(why: str) -> NoReturn:
    """Say what is missing: the tests are skipped, under CI they fail."""
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)
