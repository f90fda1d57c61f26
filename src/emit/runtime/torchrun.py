"""
torchrun for launch.sh and `lockstep launch`. A rank that fails has said why: what the launcher adds is whose fault it was,
not a traceback of itself.
"""
import logging
import os
import signal
import sys
from typing import Dict, Tuple

from torch.distributed import run
from torch.distributed.elastic.multiprocessing import Std
from torch.distributed.elastic.multiprocessing.api import PContext
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

# What a rank exits with when a peer was lost: it is not the one to blame.
EXIT_PEER_LOST = 76


def main() -> None:
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    mend_redirects()
    wake_before_ending()
    try:
        run.main()
    except ChildFailedError as error:
        end(blame({rank: failure.exitcode for rank, failure in error.failures.items()}))
    except Exception as error:  # nodes that did not meet, a signal
        end(f"torchrun: {(str(error).splitlines() or [type(error).__name__])[0]}")


def blame(exits: Dict[int, int]) -> str:
    """Of all ranks that have ended, whose fault it was: one that was killed, else one that failed by itself."""

    def order(item: Tuple[int, int]) -> Tuple[int, int]:
        rank, code = item
        told_to_end = code in (-signal.SIGTERM, 128 + signal.SIGTERM)
        return (3 if told_to_end else 2 if code == EXIT_PEER_LOST else 0 if code < 0 else 1, rank)

    rank, code = min(exits.items(), key=order)
    if code < 0:
        return f"rank {rank} was killed by {signal.Signals(-code).name}"
    return f"the first to fail was rank {rank}, with exit code {code}"


def wake_before_ending() -> None:
    """A rank that was stopped (SIGSTOP) hears that it shall end only when it goes on."""
    close = PContext.close

    def closing(self, *args, **kwargs):
        for pid in self.pids().values():
            try:
                os.kill(pid, signal.SIGCONT)
            except OSError:
                pass  # it has ended
        return close(self, *args, **kwargs)

    PContext.close = closing


def mend_redirects() -> None:
    """PyTorch 1.13 finds no name for "redirect nothing" under Python 3.11."""
    if Std.from_str("0") is None:
        Std.from_str = classmethod(lambda cls, text: cls(0))


def end(why: str) -> None:
    print(f"lockstep: {why}", file=sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    main()
