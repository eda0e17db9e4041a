"""What papers proposed stays in its own room, under whatever name it is imported."""

import ast
from pathlib import Path

import keyveil
from keyveil import mechanisms
from keyveil.mechanisms import REGISTRY, literature
from keyveil.methods import METHODS

SOURCE = Path(keyveil.__file__).parent
# The lists of all there is, and the package whose names they are.
LISTS = ("mechanisms/__init__.py", "mechanisms/registry.py")


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
