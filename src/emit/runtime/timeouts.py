"""
Timeout policy: a multiple of the longest time that the same call has taken so far, but at least a few seconds, since machines are busy
at times. Calls without history (the first step, which compiles) have a long fixed timeout.
"""
from typing import Dict, Optional

# Timeout as a multiple of the longest time so far.
MULTIPLE = 10
# Minimum timeout in seconds: of calls, and of storage.
MIN_SECONDS = 10.0
STORAGE_SECONDS = 60.0
# Timeout of a call that has not run before.
FIRST_SECONDS = 300.0

STORAGE = ("save", "load")


class Timeouts:
    """`seconds`: one timeout for all calls (--timeout), or None."""

    def __init__(self, seconds: Optional[float] = None):
        self.seconds = seconds
        self._longest: Dict[str, float] = {}

    @property
    def maximum(self) -> float:
        return self.seconds or FIRST_SECONDS

    def record(self, call: str, seconds: float) -> None:
        self._longest[call] = max(seconds, self._longest.get(call, 0.0))

    def limit(self, call: str, has_run: bool) -> float:
        if self.seconds is not None:
            return self.seconds
        if not has_run:
            return FIRST_SECONDS
        minimum = STORAGE_SECONDS if call.startswith(STORAGE) else MIN_SECONDS
        return max(minimum, MULTIPLE * self._longest.get(call, 0.0))
