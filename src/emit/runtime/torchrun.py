"""
torchrun for launch.sh and `lockstep launch`. A rank that fails has said why: what the launcher adds is whose fault it was,
not a traceback of itself.
"""
import logging
import os
import signal
import sys
from typing import Dict, List, Tuple

from torch.distributed import run
from torch.distributed.elastic.multiprocessing import Std
from torch.distributed.elastic.multiprocessing.api import PContext, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

from .copies import start_ranks_as_copies

# What a rank exits with when a peer was lost: it is not the one to blame.
EXIT_PEER_LOST = 76
# What ranks are sent when one of them has failed (watchdog.py knows it too): SIGTERM lets a run save first.
PEER_FAILED = signal.SIGUSR2
# What ranks have to save a checkpoint before they are killed; their own watchdogs end those that are stuck.
SAVING_SECONDS = 3600

STOPPED = {128 + number: number.name for number in (signal.SIGTERM, signal.SIGINT)}
TOLD_TO_END = {*STOPPED, -signal.SIGTERM, -PEER_FAILED}


def main() -> None:
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    mend_redirects()
    end_gently()
    if on_cpu(sys.argv):
        start_ranks_as_copies()
    try:
        run.main()
    except ChildFailedError as error:
        exits = {rank: failure.exitcode for rank, failure in error.failures.items()}
        if set(exits.values()) <= set(STOPPED):
            end(f"stopped by {STOPPED[max(exits.values())]}", max(exits.values()))
        end(blame(exits))
    except SignalException as error:
        end(f"stopped by {error.sigval.name}", 128 + error.sigval)
    except Exception as error:  # nodes that did not meet
        end(f"torchrun: {(str(error).splitlines() or [type(error).__name__])[0]}")


def on_cpu(words: List[str]) -> bool:
    """Ranks are to use no GPU, whose driver would not survive a fork."""
    return ("--device", "cpu") in zip(words, words[1:]) and hasattr(os, "fork")


def blame(exits: Dict[int, int]) -> str:
    """Of all ranks that have ended, whose fault it was: one that was killed, else one that failed by itself."""

    def order(item: Tuple[int, int]) -> Tuple[int, int]:
        rank, code = item
        return (3 if code in TOLD_TO_END else 2 if code == EXIT_PEER_LOST else 0 if code < 0 else 1, rank)

    rank, code = min(exits.items(), key=order)
    if code < 0:
        return f"rank {rank} was killed by {signal.Signals(-code).name}"
    return f"the first to fail was rank {rank}, with exit code {code}"


def end_gently() -> None:
    """
    Ranks that are asked to end have the time to save; when one has failed, the others are told so. A rank that was
    suspended (SIGSTOP) hears either only when it continues.
    """
    close = PContext.close

    def closing(self, death_sig=None, timeout=30):
        asked = isinstance(sys.exc_info()[1], SignalException)
        for pid in self.pids().values():
            try:
                os.kill(pid, signal.SIGCONT)
            except OSError:
                pass  # it has ended
        return close(self, death_sig if asked else PEER_FAILED, SAVING_SECONDS if asked else timeout)

    PContext.close = closing


def mend_redirects() -> None:
    """PyTorch 1.13 finds no name for "redirect nothing" under Python 3.11."""
    if Std.from_str("0") is None:
        Std.from_str = classmethod(lambda cls, text: cls(0))


def end(why: str, code: int = 1) -> None:
    print(f"lockstep: {why}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
