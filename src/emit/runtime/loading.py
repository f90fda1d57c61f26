"""
Loads that never ended. While a checkpoint is loaded, a file beside it (`step-00000100.loading`) has a line about the process of
the first rank; a process that is killed by what it loads leaves its line. `lockstep train` keeps the same file.
"""
import json
import os
import socket
from contextlib import contextmanager
from typing import Iterator

from .lock import has_ended, stat_of


def times_crashed(path: str) -> int:
    """Processes of this host that have ended while they loaded it."""
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
    """Where nothing can be written, nothing is remembered."""
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
