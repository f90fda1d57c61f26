"""
torchrun for launch.sh and `lockstep launch`. Ranks report their own errors; the launcher adds which rank failed first, without a
traceback of its own.
"""
import logging
import os
import signal
import sys
from typing import Dict, List, Optional, Set, Tuple

import torch
from torch.distributed import run
from torch.distributed.elastic.multiprocessing import Std
from torch.distributed.elastic.multiprocessing.api import PContext, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

from .forked_ranks import fork_ranks
from .lock import stat_of
from .messages import phrase
from .metrics import record_failure
from .restarts import REPORT_SECONDS, Restarts, script_in, take_own

# Exit code of a rank that lost a peer: it did not cause the failure.
EXIT_PEER_LOST = 76
# Sent to ranks when another has failed (see watchdog.py); SIGTERM would let them save first.
PEER_FAILED = signal.SIGUSR2
# Time to save a checkpoint before ranks are killed; their watchdogs end those that are stuck.
SAVING_SECONDS = 3600

STOPPED = {128 + number: number.name for number in (signal.SIGTERM, signal.SIGINT)}
ENDED_BY_SIGNAL = {*STOPPED, -signal.SIGTERM, -PEER_FAILED}


def main() -> None:
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    own = take_own(sys.argv)
    require_gpus(sys.argv)
    suspended: Set[int] = set()
    fix_redirects()
    install_graceful_shutdown(suspended, REPORT_SECONDS if own else 30)
    if own:
        Restarts(sys.argv, "--shrink" in own, blame, suspended).watch()
    if on_cpu(sys.argv):
        fork_ranks()
    try:
        run.main()
    except ChildFailedError as error:
        codes = {failure.exitcode for failure in error.failures.values()}
        if codes <= set(STOPPED):
            end(f"stopped by {STOPPED[max(codes)]}", max(codes))
        rank, why, failure = blame(error.failures, suspended)
        record_failure(metrics_of(sys.argv), rank, why, failure)
        end(why)
    except SignalException as error:
        end(f"stopped by {error.sigval.name}", 128 + error.sigval)
    except Exception as error:  # the rendezvous failed
        end(f"torchrun: {(str(error).splitlines() or [type(error).__name__])[0]}")


def metrics_of(words: List[str]) -> str:
    folder = os.path.dirname(os.path.abspath(words[script_in(words)]))
    return dict(zip(words, words[1:])).get("--metrics", os.path.join(folder, "metrics.jsonl"))


def require_gpus(words: List[str]) -> None:
    """One GPU per rank of this node, unless --device overrides it: a login node must not start hundreds of ranks on its CPU."""
    device = option(words, "--device")
    ranks = option(words, "--nproc_per_node") or ""
    if device == "cpu" or not ranks.isdigit():
        return
    gpus = torch.cuda.device_count()
    if gpus >= int(ranks) or (device == "auto" and gpus == 0):
        return
    have = "no GPU" if gpus == 0 else "1 GPU" if gpus == 1 else f"{gpus} GPUs"
    rest = "NNODES sets the number of nodes, --device cpu trains on the CPU with gloo"
    end(f"{ranks} {'rank' if ranks == '1' else 'ranks'} on this node, which has {have}: {rest}", 2)


def option(words: List[str], name: str) -> Optional[str]:
    """The last value of an option, as `--name value` or `--name=value`."""
    given = [after for word, after in zip(words, words[1:]) if word == name]
    joined = [word[len(name) + 1 :] for word in words if word.startswith(name + "=")]
    return (given + joined or [None])[-1]


def on_cpu(words: List[str]) -> bool:
    """Whether ranks can be forked: the CUDA driver does not survive a fork."""
    return option(words, "--device") == "cpu" and hasattr(os, "fork")


def blame(failures: Dict, suspended: Set[int]) -> Tuple[int, str, Dict]:
    """The rank to blame, as text and as a message template: a suspended rank, else a killed one, else the first that failed on its own."""

    def order(rank: int) -> Tuple[int, int]:
        code = failures[rank].exitcode
        return (3 if code in ENDED_BY_SIGNAL else 2 if code == EXIT_PEER_LOST else 0 if code < 0 else 1, rank)

    rank = min(failures, key=order)
    code = failures[rank].exitcode
    if suspended:
        rank += min(suspended) - failures[rank].local_rank
        return rank, f"rank {rank} was suspended (SIGSTOP)", phrase(".suspended", rank=rank)
    if code < 0:
        name = signal.Signals(-code).name
        return rank, f"rank {rank} was killed by {name}", phrase(".killed", rank=rank, signal=name)
    return rank, f"rank {rank} failed first, with exit code {code}", phrase(".first-to-fail", rank=rank, code=code)


def install_graceful_shutdown(suspended: Set[int], seconds: int) -> None:
    """
    Ranks that are asked to end get time to save; if one has failed, the others are notified. A suspended rank (SIGSTOP)
    receives signals only when it continues, so it is resumed and recorded.
    """
    close = PContext.close

    def closing(self, death_sig=None, timeout=30):
        is_signal = isinstance(sys.exc_info()[1], SignalException)
        for local_rank, pid in self.pids().items():
            try:
                if (stat_of(pid) or {}).get("state") == "T":
                    suspended.add(local_rank)
                os.kill(pid, signal.SIGCONT)
            except OSError:
                pass  # it has ended
        return close(self, death_sig if is_signal else PEER_FAILED, SAVING_SECONDS if is_signal else seconds)

    PContext.close = closing


def fix_redirects() -> None:
    """Works around PyTorch 1.13 under Python 3.11, which cannot parse "redirect nothing"."""
    if Std.from_str("0") is None:
        Std.from_str = classmethod(lambda cls, text: cls(0))


def end(why: str, code: int = 1) -> None:
    print(f"lockstep: {why}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
