"""
Lock file of a checkpoint folder: it names the run that writes there, so that two runs never save to one folder. The lock of a process
of this host that has ended is taken over. `lockstep train` uses the same file.
"""
import json
import os
import socket
import sys
from datetime import datetime, timezone
from typing import Dict, Optional

FILE = "run.lock"


class Refused(RuntimeError):
    """A folder this run must not write to. The message names its owner."""


class Lock:
    def __init__(self, folder: str, run: str):
        self.folder, self.run = folder, run
        self.path = os.path.join(folder, FILE)
        os.makedirs(folder, exist_ok=True)
        since = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        pid = os.getpid()
        stat = stat_of(pid)
        born = {"born": stat["born"]} if stat else {}
        self._acquire({"run": run, "host": socket.gethostname(), "pid": pid, **born, "since": since})

    def _acquire(self, holder: Dict) -> None:
        if self._create(holder):
            return
        previous = holder_of(self.path)
        if previous and not has_ended(previous):
            raise Refused(in_use_message(self.folder, previous))
        if previous:
            # A process that takes it over at the same moment renames it too: only one of them finds the lock both have seen.
            renamed_path = f"{self.path}.{self.run}"
            os.rename(self.path, renamed_path)
            renamed = holder_of(renamed_path)
            if renamed is None or renamed["run"] != previous["run"]:
                if not os.path.exists(self.path):
                    os.rename(renamed_path, self.path)
                raise Refused(in_use_message(self.folder, renamed or previous))
            os.remove(renamed_path)
        if not self._create(holder):
            raise Refused(in_use_message(self.folder, holder_of(self.path) or holder))
        if previous:
            print(f"lockstep: {self.path} was locked by {describe(previous)}, which has ended: taken over", file=sys.stderr)

    def _create(self, holder: Dict) -> bool:
        try:
            with open(self.path, "x") as file:
                file.write(json.dumps(holder) + "\n")
            return True
        except FileExistsError:
            return False

    def require(self) -> None:
        """Fails unless this run still owns the folder."""
        now = holder_of(self.path)
        if now is None:
            raise Refused(f"{self.path} was removed during the run")
        if now["run"] != self.run:
            raise Refused(in_use_message(self.folder, now))

    def release(self) -> None:
        now = holder_of(self.path)
        if now is not None and now["run"] == self.run:
            os.remove(self.path)


def holder_of(path: str) -> Optional[Dict]:
    try:
        with open(path) as file:
            text = file.read()
    except OSError:
        return None
    try:
        holder = json.loads(text)
        return {key: holder.get(key) for key in ("run", "host", "pid", "born", "since")}
    except (ValueError, AttributeError):
        return {"run": "unknown", "host": "unknown", "pid": None, "born": None, "since": "unknown"}


def has_ended(holder: Dict) -> bool:
    pid = holder["pid"]
    if holder["host"] != socket.gethostname() or not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # the process exists, but belongs to another user
    stat = stat_of(pid)
    # A killed process is a zombie until its parent collects the exit code.
    return stat is not None and (stat["state"] == "Z" or (holder["born"] is not None and holder["born"] != stat["born"]))


def stat_of(pid: int) -> Optional[Dict]:
    """Linux: the state of a process, and its start time in clock ticks since boot. Its name, in parentheses, may contain spaces."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return {"state": fields[0], "born": fields[19]}
    except (OSError, IndexError):
        return None


def describe(holder: Dict) -> str:
    return f"run {holder['run']} (process {holder['pid']} on {holder['host']}, since {holder['since']})"


def in_use_message(folder: str, holder: Dict) -> str:
    is_local = holder["host"] == socket.gethostname()
    hint = "" if is_local else f", or delete {os.path.join(folder, FILE)} if that run has ended"
    running = ", which is running" if is_local else ""
    return f"{folder} is in use by {describe(holder)}{running}; set another folder with --save{hint}"
