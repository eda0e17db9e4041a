"""A disk under SQLite that fails at a chosen operation, and remembers what a power loss would leave.

SQLite asks its VFS for every write. `faults` makes a copy of the process's own VFS the default for a while;
in the copy, files are opened as ever, and then get a table of methods in which those that change the disk
are ours (SQLite's test harness does the same). No product code knows.

    with faults(Disk()) as disk: ...               what is written, synced and deleted is in disk.journal
    with faults(Disk(Fault("fail", at=7))): ...    the seventh operation fails
    after_power_loss(disk.journal, dropped())      the files as they are when the power comes back
"""

import ctypes
import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p
from dataclasses import dataclass, field
from functools import cache

from parts import lacking

OK, READONLY, FULL, CANTOPEN = 0, 8, 13, 14
IOERR = 10
_IOERR_OF = {
    "read": IOERR | 1 << 8,
    "write": IOERR | 3 << 8,
    "sync": IOERR | 4 << 8,
    "truncate": IOERR | 6 << 8,
    "delete": IOERR | 10 << 8,
    "create": CANTOPEN,
}
_OPEN_CREATE = 0x4
SECTOR = 512

# What a fault can be met by; the disk stays full, read-only or broken until somebody clears it.
KINDS_OF = {
    "fail": {"write", "truncate", "delete", "create"},
    "short": {"write"},
    "sync": {"sync"},
    "read": {"read"},
    "full": {"write", "create"},
    "readonly": {"write", "truncate", "delete", "create"},
    "broken": {"write", "truncate", "delete", "create", "sync"},
    "delay": {"write", "truncate", "delete", "create", "sync"},
}
_LASTING = {"full": FULL, "readonly": READONLY, "broken": IOERR | 3 << 8}


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at the `at`-th operation, counted from 1."""

    mode: str
    at: int


@dataclass(frozen=True, slots=True)
class Event:
    """An operation that reached the disk; `lost` is a sync that failed: what it was for is gone."""

    kind: str
    path: str
    offset: int = 0
    data: bytes = b""


@dataclass(slots=True)
class Disk:
    """What is done to the files, in order; and the fault to come."""

    fault: Fault | None = None
    journal: list[Event] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    """What each operation was, those that failed too."""
    is_met: bool = False
    """Whether the fault was there when something was done."""
    lasting: str | None = None

    @property
    def n_operations(self) -> int:
        """Operations so far."""
        return len(self.kinds)

    def clear(self) -> None:
        """There is room again, and it may be written."""
        self.lasting = None

    def meet(self, kind: str) -> str | None:
        """Count an operation; the mode in which it fails, if it does."""
        self.kinds.append(kind)
        due = self.fault is not None and self.fault.at == len(self.kinds)
        mode = self.fault.mode if due else None
        self.is_met |= due and kind in KINDS_OF[mode]
        if mode in _LASTING:
            self.lasting = mode
        if self.lasting is not None and kind in KINDS_OF[self.lasting]:
            return self.lasting
        return mode if mode is not None and kind in KINDS_OF[mode] else None


# --- what a power loss leaves ---


class Loss:
    """What becomes of unsynced operations: each is on the disk by chance, and a write whole or in sectors."""

    def __init__(self, chance: float, seed: int = 0) -> None:
        self._chance, self._rng, self._is_torn = chance, random.Random(seed), False

    def keeps_operation(self) -> bool:
        """Whether the next operation reached the disk."""
        self._is_torn = 0 < self._chance < 1 and self._rng.random() < 0.5
        return self._rng.random() < self._chance

    def keeps_sector(self) -> bool:
        """Whether the next sector of a write did that reached it."""
        return not self._is_torn or self._rng.random() < 0.5


def dropped() -> Loss:
    """Nothing that was not synced is on the disk."""
    return Loss(0.0)


def kept() -> Loss:
    """Everything is: only the process was killed."""
    return Loss(1.0)


@dataclass(slots=True)
class _File:
    durable: bytearray | None = None
    """None where there is no such file."""
    pending: list[Event] = field(default_factory=list)

    def settle(self, events: list[Event], loss: Loss) -> None:
        """Some operations reach the disk, or not."""
        for event in events:
            is_kept = loss.keeps_operation()
            if event.kind == "delete" and is_kept:
                self.durable = None
            elif event.kind == "create" and is_kept:
                self.durable = self.durable or bytearray()
            elif event.kind in ("delete", "create") or self.durable is None:
                # What follows happened to a file that the folder does not know.
                return
            elif is_kept:
                self._change(event, loss)

    def _change(self, event: Event, loss: Loss) -> None:
        content = self.durable
        if event.kind == "truncate":
            del content[event.offset :]
            content.extend(bytes(event.offset - len(content)))
            return
        at = 0
        while at < len(event.data):
            start = event.offset + at
            size = min(SECTOR - start % SECTOR, len(event.data) - at)
            if loss.keeps_sector():
                content.extend(bytes(max(0, start + size - len(content))))
                content[start : start + size] = event.data[at : at + size]
            at += size

    def settle_name(self) -> None:
        """The folder is synced: whether there is such a file is on the disk, if not what it holds."""
        names = [place for place, event in enumerate(self.pending) if event.kind in ("delete", "create")]
        if names:
            is_made = self.pending[names[-1]].kind == "create"
            self.durable = bytearray() if is_made else None
            del self.pending[: names[-1] + 1]


def after_power_loss(journal: list[Event], loss: Loss) -> dict[str, bytes]:
    """The files by path, as they are when the power comes back."""
    files: dict[str, _File] = {}
    for event in journal:
        file = files.setdefault(event.path, _File())
        if event.kind == "sync":
            # SQLite syncs the folder of a new journal at the journal's first sync.
            if event.path.endswith(("-wal", "-journal")) and file.durable is None:
                for each in files.values():
                    each.settle_name()
            file.settle(file.pending, kept())
        if event.kind in ("sync", "lost"):
            file.pending = []
        elif event.kind == "delete" and event.offset:
            file.durable, file.pending = None, []
        else:
            file.pending.append(event)
    for file in files.values():
        file.settle(file.pending, loss)
    return {path: bytes(file.durable) for path, file in files.items() if file.durable is not None}


# --- SQLite's side ---

_XOPEN = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
_XDELETE = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)
_XACCESS = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int, POINTER(c_int))
_XCLOSE = CFUNCTYPE(c_int, c_void_p)
_XWRITE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_XTRUNCATE = CFUNCTYPE(c_int, c_void_p, c_int64)
_XSYNC = CFUNCTYPE(c_int, c_void_p, c_int)


class _Vfs(Structure):
    _fields_ = (
        ("iVersion", c_int),
        ("szOsFile", c_int),
        ("mxPathname", c_int),
        ("pNext", c_void_p),
        ("zName", c_char_p),
        ("pAppData", c_void_p),
        ("xOpen", c_void_p),
        ("xDelete", c_void_p),
        ("xAccess", c_void_p),
        # Whatever else this version has is copied as it is.
        *((f"other{place}", c_void_p) for place in range(13)),
    )


class _Methods(Structure):
    _fields_ = (
        ("iVersion", c_int),
        ("xClose", c_void_p),
        ("xRead", c_void_p),
        ("xWrite", c_void_p),
        ("xTruncate", c_void_p),
        ("xSync", c_void_p),
        *((f"other{place}", c_void_p) for place in range(13)),
    )


class _Shim:
    """The VFS that was the default, and a copy of it under which every change is counted."""

    def __init__(self) -> None:
        self.disk: Disk | None = None
        self._library = _library()
        self._library.sqlite3_vfs_find.restype = POINTER(_Vfs)
        self._library.sqlite3_vfs_register.argtypes = (c_void_p, c_int)
        self.usual = self._library.sqlite3_vfs_find(None)
        real = self.usual.contents
        self.copy = _Vfs.from_buffer_copy(real)
        self._open, self._delete = _XOPEN(real.xOpen), _XDELETE(real.xDelete)
        self._access = _XACCESS(real.xAccess)
        self._kept = (_XOPEN(self._on_open), _XDELETE(self._on_delete))
        self.copy.zName = b"faulty"
        self.copy.xOpen, self.copy.xDelete = (ctypes.cast(each, c_void_p).value for each in self._kept)
        self._ours = {
            "xClose": _XCLOSE(self._on_close),
            "xRead": _XWRITE(self._on_read),
            "xWrite": _XWRITE(self._on_write),
            "xTruncate": _XTRUNCATE(self._on_truncate),
            "xSync": _XSYNC(self._on_sync),
        }
        # By the address of the table that a file came with: the same with ours in it, and theirs to call.
        self._tables: dict[int, tuple[_Methods, dict]] = {}
        self._files: dict[int, tuple[str | None, dict]] = {}

    def register(self, is_default: bool) -> None:
        """Make the copy the default, or the usual one again; the copy stays for files that are open."""
        self._library.sqlite3_vfs_register(ctypes.addressof(self.copy), int(is_default))
        if not is_default:
            self._library.sqlite3_vfs_register(ctypes.addressof(self.usual.contents), 1)

    def _table(self, address: int) -> tuple[_Methods, dict]:
        if address not in self._tables:
            real = _Methods.from_address(address)
            table = _Methods.from_buffer_copy(real)
            for name, function in self._ours.items():
                setattr(table, name, ctypes.cast(function, c_void_p).value)
            theirs = {name: type(function)(getattr(real, name)) for name, function in self._ours.items()}
            self._tables[address] = table, theirs
        return self._tables[address]

    def _met(self, kind: str) -> str | None:
        return None if self.disk is None else self.disk.meet(kind)

    def _note(self, kind: str, path: str | None, offset: int = 0, data: bytes = b"") -> None:
        if self.disk is not None and path is not None:
            self.disk.journal.append(Event(kind, path, offset, data))

    def _refused(self, mode: str | None, kind: str) -> int:
        """The answer to an operation that fails; a slow one does not."""
        if mode == "delay":
            time.sleep(0.002)
            return OK
        return OK if mode is None else _LASTING.get(mode, _IOERR_OF[kind])

    def _on_open(self, vfs, name, file, flags, out_flags):
        path = None if name is None else ctypes.string_at(name).decode()
        exists = c_int(0)
        if path is not None:
            self._access(ctypes.addressof(self.usual.contents), path.encode(), 0, ctypes.byref(exists))
        is_new = bool(flags & _OPEN_CREATE) and not exists.value
        if is_new and (refused := self._refused(self._met("create"), "create")):
            ctypes.c_void_p.from_address(file).value = None
            return refused
        answer = self._open(ctypes.addressof(self.usual.contents), name, file, flags, out_flags)
        pointer = c_void_p.from_address(file)
        if answer == OK and pointer.value:
            table, theirs = self._table(pointer.value)
            self._files[file] = path, theirs
            pointer.value = ctypes.addressof(table)
            if is_new:
                self._note("create", path)
        return answer

    def _on_delete(self, vfs, name, is_synced):
        if refused := self._refused(self._met("delete"), "delete"):
            return refused
        answer = self._delete(ctypes.addressof(self.usual.contents), name, is_synced)
        if answer == OK:
            self._note("delete", name.decode(), is_synced)
        return answer

    def _on_close(self, file):
        _, theirs = self._files.pop(file)
        return theirs["xClose"](file)

    def _on_read(self, file, data, size, offset):
        _, theirs = self._files[file]
        return self._refused(self._met("read"), "read") or theirs["xRead"](file, data, size, offset)

    def _on_write(self, file, data, size, offset):
        path, theirs = self._files[file]
        mode = self._met("write")
        if mode == "short":
            theirs["xWrite"](file, data, size // 2, offset)
            self._note("write", path, offset, ctypes.string_at(data, size // 2))
        if refused := self._refused(mode, "write"):
            return refused
        answer = theirs["xWrite"](file, data, size, offset)
        self._note("write", path, offset, ctypes.string_at(data, size))
        return answer

    def _on_truncate(self, file, size):
        path, theirs = self._files[file]
        if refused := self._refused(self._met("truncate"), "truncate"):
            return refused
        answer = theirs["xTruncate"](file, size)
        self._note("truncate", path, size)
        return answer

    def _on_sync(self, file, flags):
        path, theirs = self._files[file]
        if refused := self._refused(self._met("sync"), "sync"):
            # A system may forget what it could not write, and say so this once.
            self._note("lost", path)
            return refused
        answer = theirs["xSync"](file, flags)
        self._note("sync", path)
        return answer


def _library() -> ctypes.CDLL:
    """The SQLite that the `sqlite3` module calls, whether it is linked to it or holds it."""
    import _sqlite3

    for place in (getattr(_sqlite3, "__file__", None), None):
        library = ctypes.CDLL(place)
        try:
            library.sqlite3_libversion.restype = c_char_p
            if library.sqlite3_libversion().decode() == sqlite3.sqlite_version:
                return library
        except AttributeError:
            continue
    return lacking(
        "the sqlite3 module hides the functions of its SQLite, so that no faults can be put under it"
    )


@cache
def _shim() -> _Shim:
    return _Shim()


@contextmanager
def faults(disk: Disk) -> Iterator[Disk]:
    """Connections that are opened inside are on this disk."""
    shim = _shim()
    shim.disk = disk
    shim.register(is_default=True)
    try:
        yield disk
    finally:
        shim.disk = None
        shim.register(is_default=False)
