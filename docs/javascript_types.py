"""The types that the JavaScript client ships, as pages show them: every exported name with its comment.

The files are formatted by prettier and compared with the code by the type checker, so reading them by lines
is enough: a comment, then what it is about, which ends where its brackets are closed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SDK = Path(__file__).resolve().parent.parent / "sdk" / "js"
FILES = (SDK / "index.d.ts", SDK / "index.node.d.ts", SDK / "index.sealed.d.ts")
_HEAD = re.compile(r"export (?:class|interface|type|function|const) (\w+)")


@dataclass(frozen=True, slots=True)
class Declared:
    """What a comment is about, and the comment."""

    text: str
    comment: str

    @property
    def members(self) -> tuple[Declared, ...]:
        """What a class or an interface has, but for what is private."""
        head, *lines = self.text.splitlines()
        if not re.match(r"export (class|interface) .*{$", head):
            return ()
        inside = (line[2:] for line in lines[:-1])
        return tuple(found for found in _declared(inside) if not found.text.startswith("private "))


def declarations() -> dict[str, Declared]:
    """Every exported name, in the order of the files.

    >>> declarations()["Device"].members[-1].text
    'explain(held: Held): Promise<Outcome<{ text: string }>>;'
    """
    found = {}
    for path in FILES:
        for declared in _declared(path.read_text(encoding="utf-8").splitlines()):
            name = _HEAD.match(declared.text)
            if name is not None:
                found[name[1]] = declared
    return found


def _declared(lines: Iterator[str] | list[str]) -> Iterator[Declared]:
    comment: list[str] = []
    text: list[str] = []
    is_comment = False
    for line in lines:
        if not text and (is_comment or line.startswith("/**")):
            comment = [*comment, line] if is_comment else [line]
            is_comment = not line.endswith("*/")
            continue
        if not text and not line:
            continue
        text.append(line)
        if line.endswith((";", "}")) and _is_closed("\n".join(text)):
            yield Declared("\n".join(text), _words(comment))
            comment, text = [], []


def _is_closed(text: str) -> bool:
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return sum(map(code.count, "([{")) == sum(map(code.count, ")]}"))


def _words(comment: list[str]) -> str:
    bare = (re.sub(r"^\s*(/\*\*|\*/|\*)|\*/$", "", line).strip() for line in comment)
    return " ".join(line for line in bare if line)


def show(names: str) -> str:
    """Some names, separated by commas, as Markdown: the comment, and the members or the declaration."""
    known = declarations()
    return "\n\n".join(_shown(name, known[name]) for name in names.split(","))


def _shown(name: str, declared: Declared) -> str:
    members = declared.members
    parts = [f"### `{name}`", declared.comment]
    if members and all(member.comment for member in members):
        parts += [f"`{_on_one_line(member.text)}`\n: {member.comment}" for member in members]
    else:
        parts.append(f"```ts\n{declared.text.removeprefix('export ')}\n```")
    return "\n\n".join(parts)


def _on_one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).rstrip(";")
