"""
No rank waits for ever, and none ends without a word. A thread looks on: when nothing has moved for the time-out, or
when somebody ends the run, it says where this rank is and ends it.
"""
import os
import signal
import sys
import threading
import time
import traceback
from typing import Callable, Optional

EXIT_STALLED = 75


class Watchdog:
    def __init__(self, rank: int, where: Callable[[], str], seconds: float):
        self.rank, self.where, self.seconds = rank, where, seconds
        self.moved = time.monotonic()
        self.quiet = False
        self.main = threading.get_ident()
        # Signals are taken by the thread: the main one may be deep in a wait that Python cannot interrupt.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=self._look, daemon=True, name="watchdog").start()

    def beat(self) -> None:
        self.moved = time.monotonic()

    def say(self, text: str) -> None:
        line = f"lockstep: rank {self.rank}: {text}\n"
        sys.stderr.write(line)
        sys.stderr.flush()

    def _look(self) -> None:
        while True:
            told = signal.sigtimedwait({signal.SIGTERM}, min(1.0, self.seconds / 4))
            if told is not None:
                if not self.quiet:
                    self.say(f"ended by its launcher at {self.place()}")
                os._exit(128 + signal.SIGTERM)
            if not self.quiet and time.monotonic() - self.moved > self.seconds:
                self.say(f"nothing has moved for {self.seconds:g} s at {self.place()}")
                os._exit(EXIT_STALLED)

    def place(self, error: Optional[BaseException] = None) -> str:
        """Where the rank is, and the line of emitted code it is in."""
        line = emitted_line(traceback.extract_tb(error.__traceback__) if error else self._stack())
        return self.where() + (f"\n    {line}" if line else "")

    def _stack(self):
        frame = sys._current_frames().get(self.main)
        return traceback.extract_stack(frame) if frame else []


def emitted_line(stack) -> str:
    for entry in reversed(stack):
        if os.path.basename(entry.filename).startswith("stage") and "runtime" not in entry.filename.split(os.sep)[-2:]:
            return f"{os.path.basename(entry.filename)}:{entry.lineno}: {(entry.line or '').strip()}"
    return ""
