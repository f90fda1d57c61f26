"""Files of a run: about.json describes it, metrics.jsonl has one line per step and per event."""
import json
import math
import os
import socket
import time
import uuid
from datetime import datetime, timezone
from typing import Dict, List, Optional

from .messages import phrase
from .tensorboard import TensorBoard

FORMAT = "lockstep-run-1"


def write_run(folder: str, world: int, device: str, expected: Optional[Dict], restarted: bool) -> None:
    """Writes about.json on one rank. A restarted run keeps its identity."""
    path = os.path.join(folder, "about.json")
    if restarted and os.path.exists(path):
        return
    started = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    entry = {"format": FORMAT, "run": str(uuid.uuid4()), "started": started, "software": "emitted"}
    machine = {"world": world, "device": device, "host": socket.gethostname()}
    prediction = {"prediction": expected} if expected else {}
    with open(path, "w") as file:
        file.write(json.dumps({**entry, **machine, **prediction}, indent=2) + "\n")


def finite(record: Dict) -> Dict:
    """JSON cannot represent NaN and infinity: null instead."""
    return {key: None if isinstance(x, float) and not math.isfinite(x) else x for key, x in record.items()}


class Metrics:
    """metrics.jsonl on the reporting rank."""

    def __init__(self, path: str, board: Optional[TensorBoard] = None):
        self.path, self.board = path, board

    def step(self, record: Dict, cursor: Dict) -> None:
        entry = finite(record)
        print(json.dumps(entry), flush=True)
        self._append({**entry, "cursor": cursor})
        if self.board:
            self.board.step(record)

    def event(self, step: int, event: str, severity: str, message: str, numbers: Dict, rank: Optional[int] = None, **more) -> None:
        rank_field = {} if rank is None else {"rank": rank}
        entry = {"step": step, "event": event, "severity": severity, **rank_field, "message": message, "numbers": finite(numbers), **more}
        print(json.dumps(entry), flush=True)
        self._append(entry)

    def events(self, events: List[Dict]) -> None:
        for event in events:
            self.event(**event)

    def restarted(self, first: int) -> None:
        """A restart event: the failure that the launcher passes on, and the steps lost."""
        restart = json.loads(os.environ["LOCKSTEP_RESTART"])
        lost = max(0, last_step(self.path) - first)
        repeated = f"{lost} {'step is' if lost == 1 else 'steps are'} repeated" if lost else "no step is lost"
        cost = phrase(".lost-step" if lost == 1 else ".lost-steps", steps=lost) if lost else phrase(".nothing-lost")
        restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
        numbers = {"restarts": restarts, "from": first, "lostSteps": lost, "seconds": round(time.time() - restart["at"], 3)}
        why, failure = restart["why"], restart["failure"]
        if restart["stalled"]:
            entry = phrase("timeout/emitted", why=failure)
            self.event(first, "timeout", "error", f"no progress for longer than the timeout: {why}", {}, **entry)
        entry = phrase("restart/emitted", **{"failure": failure, "from": first, "again": cost})
        self.event(first, "restart", "warning", f"{why}; resumes after step {first}, {repeated}", numbers, restart["rank"], **entry)
        if "ranks" in restart:
            ranks = restart["ranks"]
            entry = phrase("replanned/emitted", ranks=ranks)
            self.event(first, "replanned", "note", f"continues with the plan for {ranks} ranks", {"ranks": ranks}, **entry)

    def _append(self, entry: Dict) -> None:
        with open(self.path, "a") as file:
            file.write(json.dumps(entry) + "\n")


def last_step(path: str) -> int:
    """The step of the last complete line that records one. A folder may have lines of an earlier run, with later steps."""
    last = 0
    if os.path.exists(path):
        with open(path) as file:
            for line in file:
                try:
                    record = json.loads(line)
                    last = last if "event" in record else record["step"]
                except (ValueError, KeyError, TypeError):
                    continue
    return last


def record_failure(path: str, rank: Optional[int], why: str, failure: Dict) -> None:
    """Called by the launcher when a run has failed: appends how it ended."""
    if os.path.exists(path):
        step = last_step(path) + 1
        Metrics(path).event(step, "failed", "error", f"the run failed here: {why}", {}, rank, **phrase("failed", why=failure))
