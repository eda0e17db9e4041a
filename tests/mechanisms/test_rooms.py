"""What papers proposed stays in its own room, under whatever name it is imported."""

import ast
import re
from pathlib import Path

import keyveil
from keyveil import mechanisms
from keyveil.mechanisms import REGISTRY, literature
from keyveil.methods import METHODS

SOURCE = Path(keyveil.__file__).parent
# The lists of all there is, and the package whose names they are.
LISTS = ("mechanisms/__init__.py",)


def imports(path):
    """Module and name of everything that a file imports by name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module, alias.name) for alias in node.names)


def test_only_rooms_of_the_literature_know_its_mechanisms():
    names = set(literature.__all__)
    assert {"Apart", "BroadcastIndex"} <= names & set(mechanisms.__all__)
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        for module, name in imports(path)
        if module.startswith("keyveil.mechanisms") and name in names
    }
    strangers = {path for path in found if "literature" not in path}
    assert strangers == set(LISTS)


def test_methods_of_the_literature_are_marked_and_no_other():
    of_papers = {name for name, cls in REGISTRY.items() if "literature" in cls.__module__}
    for name, method in METHODS.items():
        if not method.has_several_rounds:
            assert method.from_literature == (method.mechanism in of_papers), name


def test_contributing_names_every_table_of_shapes():
    guide = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = guide.partition("### A new shape of report")[2].partition("\n## ")[0]
    tables = {
        (path.relative_to(SOURCE).as_posix(), name)
        for path in SOURCE.rglob("*.py")
        for name in re.findall(
            r"@singledispatch\ndef (\w+)\((?:mechanism|part):", path.read_text(encoding="utf-8")
        )
    }
    assert len(tables) > 10
    for path, name in tables:
        assert f"`{name}`" in section, name
        assert f"`{path}`" in section, path
