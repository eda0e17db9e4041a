"""A planted fault that no longer finds its line would stop the nightly run, and prove nothing."""

from pathlib import Path

import pytest

import mutants


@pytest.mark.parametrize("fault", mutants.FAULTS, ids=lambda fault: fault.name)
def test_every_planted_fault_finds_its_line_once(fault):
    text = (mutants.ROOT / "src" / "keyveil" / fault.file).read_text(encoding="utf-8")
    assert text.count(fault.right) == 1
    assert fault.wrong not in ("", fault.right)


def test_every_fault_names_tests_that_are_there():
    folders = {folder for fault in mutants.FAULTS for folder in fault.folders}
    assert all((Path(mutants.ROOT) / "tests" / folder).exists() for folder in folders)


def test_the_script_says_how_many_there_are():
    assert f"{len(mutants.FAULTS)} of {len(mutants.FAULTS)} caught" in mutants.__doc__
