"""
Coordinated shutdown: a signal reaches the ranks at different times, but a checkpoint needs all of them after the same step. After every
step the ranks all-reduce the signals they received, and read the result after the next step. By then it has arrived, so neither ranks
nor GPUs wait.
"""
from typing import Callable, Optional

import torch
import torch.distributed as dist


class Stopped(Exception):
    """All ranks agreed to stop after this step. `code` is their exit code (128 + signal)."""

    def __init__(self, number: int, step: int):
        super().__init__(f"stopped by signal {number} after step {step}")
        self.code = 128 + number


class Skipped(Exception):
    """Too many consecutive steps were skipped; already reported."""


class Stopping:
    """Agreement to stop. All ranks call `agreed_signal` after every step."""

    def __init__(self, device: torch.device, world: int):
        self.device, self.world = device, world
        self.requested = 0
        self._result: Optional[Callable[[], int]] = None

    def request(self, number: int) -> None:
        """Called by the watchdog thread."""
        self.requested = number

    def agreed_signal(self) -> int:
        """The signal that any rank had received at the end of the previous step; 0: none. Equal on all ranks."""
        if self.world == 1:
            return self.requested
        earlier, self._result = self._result, self._start()
        return earlier() if earlier else 0

    def close(self) -> None:
        """Completes the last agreement, so that no rank exits while another waits for it."""
        if self._result:
            self._result()

    def _start(self) -> Callable[[], int]:
        flag = torch.full((1,), self.requested, dtype=torch.int32, device=self.device)
        work = dist.all_reduce(flag, op=dist.ReduceOp.MAX, async_op=True)
        if self.device.type != "cuda":
            return lambda: work.wait() and int(flag)
        work.wait()  # the stream does, the host does not
        pinned = torch.empty(1, dtype=torch.int32, pin_memory=True)
        pinned.copy_(flag, non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record()
        return lambda: arrived.synchronize() or int(pinned)
