"""
No rank waits for ever, and none ends without a word. A thread looks on: when nothing has moved for the time-out, or
when somebody ends the run, it says where this rank is and ends it.
"""
import math
import os
import signal
import sys
import threading
import time
import traceback
from typing import Optional

EXIT_STALLED = 75
# What a rank exits with when a peer was lost (torchrun.py knows it too): it is not the one to blame.
EXIT_PEER_LOST = 76


class Watchdog:
    def __init__(self, rank: int, seconds: float):
        self.rank, self.seconds = rank, seconds
        # What is watched: something with progress() and where().
        self.trainer = None
        # What a rank does before there is a trainer, and how long that may take.
        self.starting, self.limit = "the start", math.inf
        self.quiet = False
        self.main = threading.get_ident()
        if hasattr(signal, "sigtimedwait"):
            # Signals are taken by the thread: the main one may be deep in a wait that Python cannot interrupt.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=self._look, daemon=True, name="watchdog").start()

    def enter(self, starting: str, limit: float) -> None:
        self.starting, self.limit = starting, limit

    def watch(self, trainer) -> None:
        self.trainer = trainer

    def say(self, text: str) -> None:
        sys.stderr.write(f"lockstep: rank {self.rank}: {printable(text)}\n")
        sys.stderr.flush()

    def close(self) -> None:
        """Releases the folder the run saves into, where this rank holds it."""
        if self.trainer and self.trainer.saving:
            self.trainer.saving.close()

    def _look(self) -> None:
        seen, moved = -1, time.monotonic()
        while True:
            if self._told_to_end(min(1.0, self.seconds / 4)):
                if not self.quiet:
                    self.say(f"ended by its launcher at {self.place()}")
                self.close()
                os._exit(128 + signal.SIGTERM)
            now = self.trainer.progress() if self.trainer else self.starting
            limit = self.seconds if self.trainer else self.limit
            if now != seen or self.quiet:
                seen, moved = now, time.monotonic()
            elif time.monotonic() - moved > limit:
                self.say(f"nothing has moved for {limit:g} s at {self.place()}")
                self.close()
                os._exit(EXIT_STALLED)

    def _told_to_end(self, seconds: float) -> bool:
        if hasattr(signal, "sigtimedwait"):
            return signal.sigtimedwait({signal.SIGTERM}, seconds) is not None
        time.sleep(seconds)
        return False

    def place(self, error: Optional[BaseException] = None) -> str:
        """Where the rank is, and the line of emitted code it is in."""
        line = emitted_line(traceback.extract_tb(error.__traceback__) if error else self._stack())
        return (self.trainer.where() if self.trainer else self.starting) + (f"\n    {line}" if line else "")

    def _stack(self):
        frame = sys._current_frames().get(self.main)
        return traceback.extract_stack(frame) if frame else []


def printable(text: str) -> str:
    """Control characters of names and paths are shown, not obeyed by a terminal."""
    return "".join(char if char == "\n" or char.isprintable() else f"\\u{ord(char):04x}" for char in text)


def emitted_line(stack) -> str:
    """Of the calls that are open the innermost in a stageN.py: the instruction, as it is written there."""
    for entry in reversed(stack):
        folder, name = os.path.split(entry.filename)
        if name.startswith("stage") and os.path.basename(folder) != "runtime":
            return f"{name}:{entry.lineno}: {(entry.line or '').strip()}"
    return ""
