"""Forks ranks from the launcher, which has imported torch: on CPUs the import dominates the start."""
import os
import runpy
import signal
import subprocess
import sys
import time
import traceback
import warnings
from typing import Dict, Optional, Tuple

from torch.distributed.elastic.multiprocessing import api

POLL_SECONDS = 0.01
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


class ForkedRank:
    """A forked process with the interface of subprocess.Popen that torchrun needs."""

    def __init__(self, args: Tuple, env: Dict[str, str]) -> None:
        self.returncode: Optional[int] = None
        sys.stdout.flush()
        sys.stderr.flush()
        # Blocked during the fork: without handlers of its own yet, a child would react like the launcher.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        with warnings.catch_warnings():
            # The launcher has threads. The child has none of them, and uses nothing that they may have locked.
            warnings.simplefilter("ignore")
            self.pid = os.fork()
        if self.pid == 0:
            os._exit(run_script(args, env))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def poll(self) -> Optional[int]:
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.returncode = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        return self.returncode

    def wait(self, timeout: Optional[float] = None) -> int:
        end = time.monotonic() + (float("inf") if timeout is None else timeout)
        while self.poll() is None:
            if time.monotonic() >= end:
                raise subprocess.TimeoutExpired("a rank", timeout or 0)
            time.sleep(POLL_SECONDS)
        return self.returncode or 0


def run_script(args: Tuple, env: Dict[str, str]) -> int:
    """Runs a script like `python -u script ...`; returns its exit code."""
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # sockets of the launcher
    os.environ.clear()
    os.environ.update(env)
    script = next(i for i, word in enumerate(args) if word.endswith(".py"))
    sys.argv = list(args[script:])
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    sys.stdout.reconfigure(write_through=True)
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
        return 0
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def fork_ranks() -> None:
    api.SubprocessHandler._popen = lambda self, args, env: ForkedRank(args, env)
