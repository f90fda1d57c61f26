"""
Watchdog: no rank hangs forever, and none ends without a message. A thread checks for progress: after the timeout (timeouts.py), or on a
signal to end, it reports this rank's position and ends it. A run that saves is asked to stop after the step instead.
"""
import math
import os
import signal
import sys
import threading
import time
import traceback
from typing import Optional

from .timeouts import Timeouts

EXIT_STALLED = 75
# Exit code of a rank that lost a peer (see torchrun.py): it did not cause the failure.
EXIT_PEER_LOST = 76
# Exit code of an error that a restart cannot fix.
EXIT_FINAL = 77
# The replicas differ: the checkpoints of suspect states are removed.
EXIT_CORRUPT = 78
# Sent by torchrun.py when a rank has failed: the others cannot finish the step.
PEER_FAILED = signal.SIGUSR2
# Polling interval in seconds.
POLL_SECONDS = 0.5
# A terminal signals every process, and the launcher then signals its ranks again: only later signals count as a second one.
REPEAT_SECONDS = 3
# Time for a rank to report its error.
REPORT_SECONDS = 2


class Watchdog:
    """`saves`: whether the run writes a checkpoint when it is asked to stop."""

    def __init__(self, rank: int, timeouts: Timeouts, saves: bool = False):
        self.rank, self.timeouts = rank, timeouts
        # Ranks end with their torchrun.
        self.launcher = os.getppid() if "TORCHELASTIC_RUN_ID" in os.environ else None
        self.stop_requested_at = math.inf
        # The object that is watched: it has progress() and where().
        self.trainer = None
        # What a rank does before there is a trainer, and its timeout.
        self.starting, self.limit = "the start", math.inf
        self.quiet = False
        self.main = threading.get_ident()
        stop_signals = {signal.SIGTERM, signal.SIGINT} if saves else {signal.SIGTERM}
        self.stop_signals = stop_signals if saves else set()
        self.signals = {*stop_signals, PEER_FAILED}
        if hasattr(signal, "sigtimedwait"):
            # A thread receives the signals: the main one may be in a wait that Python cannot interrupt.
            signal.pthread_sigmask(signal.SIG_BLOCK, self.signals)
        else:
            for number in self.stop_signals:
                signal.signal(number, lambda number, _: self._request_stop(number) or self._end(number))
        threading.Thread(target=self._watch_loop, daemon=True, name="watchdog").start()

    def enter(self, starting: str, limit: float) -> None:
        self.starting, self.limit = starting, limit

    def watch(self, trainer) -> None:
        self.trainer = trainer

    def say(self, text: str) -> None:
        sys.stderr.write(f"lockstep: rank {self.rank}: {printable(text)}\n")
        sys.stderr.flush()

    def close(self) -> None:
        """Releases the lock of the checkpoint folder, if this rank holds it."""
        if self.trainer and self.trainer.saving:
            self.trainer.saving.close()

    def _watch_loop(self) -> None:
        seen, moved, call = -1, time.monotonic(), ("", False)
        while True:
            received = self._wait_for_signal(min(POLL_SECONDS, self.timeouts.maximum / 4))
            if received and not self._request_stop(received):
                self._end(received)
            if self.launcher not in (None, os.getppid()):
                self._give_up("its launcher is gone", EXIT_PEER_LOST)
            now = self.trainer.progress() if self.trainer else self.starting
            waited = time.monotonic() - moved
            if now != seen or self.quiet:
                self.timeouts.record(call[0], waited)
                seen, moved, call = now, time.monotonic(), self.trainer.call() if self.trainer else ("", False)
            elif waited > (self.timeouts.limit(*call) if self.trainer else self.limit):
                self._give_up(f"nothing has moved for {waited:.3g} s", EXIT_STALLED)

    def _give_up(self, why: str, code: int) -> None:
        self.say(f"{why} at {self.place()}")
        self.close()
        os._exit(code)

    def _wait_for_signal(self, seconds: float) -> int:
        """The signal that asked to stop; 0: none."""
        if hasattr(signal, "sigtimedwait"):
            received = signal.sigtimedwait(self.signals, seconds)
            return received.si_signo if received else 0
        time.sleep(seconds)
        return 0

    def _request_stop(self, number: int) -> bool:
        """Whether this rank continues until all have agreed to stop. A second signal ends it at once."""
        if number not in self.stop_signals or self.trainer is None or self.trainer.stopping is None:
            return False
        self.trainer.stopping.request(number)
        self.stop_requested_at = min(self.stop_requested_at, time.monotonic())
        return time.monotonic() - self.stop_requested_at < REPEAT_SECONDS

    def _end(self, number: int) -> None:
        if self.quiet:
            # The main thread is reporting an error, and exits after that.
            time.sleep(REPORT_SECONDS)
        else:
            self.say(f"ended by its launcher at {self.place()}")
        self.close()
        os._exit(128 + (signal.SIGTERM if number == PEER_FAILED else number))

    def place(self, error: Optional[BaseException] = None) -> str:
        """The current position, with the line of generated code."""
        line = generated_line(traceback.extract_tb(error.__traceback__) if error else self._stack())
        return (self.trainer.where() if self.trainer else self.starting) + (f"\n    {line}" if line else "")

    def _stack(self):
        frame = sys._current_frames().get(self.main)
        return traceback.extract_stack(frame) if frame else []


def printable(text: str) -> str:
    """Text with control characters escaped."""
    return "".join(char if char == "\n" or char.isprintable() else f"\\u{ord(char):04x}" for char in text)


def generated_line(stack) -> str:
    """The innermost open frame in a stageN.py: its source line."""
    for entry in reversed(stack):
        folder, name = os.path.split(entry.filename)
        if name.startswith("stage") and os.path.basename(folder) != "runtime":
            return f"{name}:{entry.lineno}: {(entry.line or '').strip()}"
    return ""
