"""
Detects loads that crash the process. While a checkpoint is loaded, a file next to it (`step-00000100.loading`) has a line about rank
0's process; a process that is killed during the load leaves its line. `lockstep train` uses the same file.
"""
import json
import os
import socket
from contextlib import contextmanager
from typing import Iterator

from .lock import has_ended, stat_of


def times_crashed(path: str) -> int:
    """The number of processes of this host that ended while they loaded it."""
    try:
        with open(_mark(path)) as file:
            lines = file.read().splitlines()
    except (OSError, ValueError):
        return 0
    return sum(_ended(line) for line in lines)


def _ended(line: str) -> bool:
    try:
        holder = json.loads(line)
        return has_ended({"born": None, **holder})
    except (ValueError, TypeError, KeyError):
        return False


@contextmanager
def loading(path: str, rank: int) -> Iterator[None]:
    """If the file cannot be written, nothing is recorded."""
    if rank == 0:
        stat = stat_of(os.getpid())
        born = {"born": stat["born"]} if stat else {}
        try:
            with open(_mark(path), "a") as file:
                file.write(json.dumps({"host": socket.gethostname(), "pid": os.getpid(), **born}) + "\n")
        except OSError:
            pass
    try:
        yield
    finally:
        if rank == 0:
            try:
                os.remove(_mark(path))
            except OSError:
                pass


def _mark(path: str) -> str:
    return f"{os.path.normpath(path)}.loading"
