"""
Elastic restarts: when a run loses a rank, torchrun restarts all ranks, and they resume from the latest checkpoint. Added here: which
rank is to blame, whether there was progress since the last failure, and the world size to restart with.
"""
import json
import os
import sys
import time
from typing import Callable, Dict, List, Set, Tuple

from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent

from .messages import phrase
from .plans import plans_in
from .saving import steps_in

# Consecutive failures without a new checkpoint after which the run gives up.
MAX_WITHOUT_PROGRESS = 3
# A practically unlimited number of restarts.
RESTARTS = 1_000_000
# Time for ranks to report their position before they are killed.
REPORT_SECONDS = 5
# Exit code of an error that a restart cannot fix (see watchdog.py).
EXIT_FINAL = 77
EXIT_STALLED = 75
EXIT_CORRUPT = 78

OWN = ("--elastic", "--shrink")


def take_own(argv: List[str]) -> List[str]:
    """Removes our options from torchrun's command line, which precede the script."""
    script = script_in(argv)
    own = [argument for argument in argv[:script] if argument in OWN]
    argv[:script] = [argument for argument in argv[:script] if argument not in OWN]
    if own:
        argv[1:1] = [f"--max_restarts={RESTARTS}", "--monitor_interval=0.1"]
    return own


def script_in(argv: List[str]) -> int:
    return next((i for i, argument in enumerate(argv) if i > 0 and argument.endswith(".py")), len(argv))


class Restarts:
    """`argv` is the command line of torchrun, with the script and its arguments."""

    def __init__(self, argv: List[str], shrink: bool, blame: Callable[[Dict, Set[int]], Tuple[int, str, Dict]], suspended: Set[int]):
        self.folder = os.path.dirname(os.path.abspath(argv[script_in(argv)]))
        restart = dict(zip(argv, argv[1:]))
        self.saved = os.path.join(self.folder, restart.get("--save", "checkpoints"))
        self.shrink, self.blame, self.suspended = shrink, blame, suspended
        self.without_progress, self.latest = 0, self._latest()

    def watch(self) -> None:
        monitor, before_restart = LocalElasticAgent._monitor_workers, self.before_restart

        def monitoring(agent, group):
            result = monitor(agent, group)
            if result.is_failed():
                before_restart(agent, result.failures)
            return result

        LocalElasticAgent._monitor_workers = monitoring

    def before_restart(self, agent, failures: Dict) -> None:
        """Reports the failure and the restart; the agent restarts while it has restarts left."""
        rank, why, failure = self.blame(failures, self.suspended)
        corrupt = any(failure.exitcode == EXIT_CORRUPT for failure in failures.values())
        if corrupt:
            rank, why, failure = None, "replicas differ", phrase(".failed/replicas")
        latest = self._latest()
        self.without_progress = 1 if latest > self.latest else self.without_progress + 1
        self.latest = latest
        from_step = f"from the checkpoint of step {latest}" if latest else "from the beginning"
        if any(failure.exitcode == EXIT_FINAL for failure in failures.values()):
            agent._remaining_restarts = 0
        elif self.without_progress >= MAX_WITHOUT_PROGRESS:
            agent._remaining_restarts = 0
            log(f"{why}; gave up: {self.without_progress} failures without a new checkpoint, the last good state is {from_step[5:]}")
        else:
            before = agent._worker_group.spec.local_world_size
            ranks = before if corrupt else self._ranks_left(agent)
            self.suspended.clear()
            stalled = any(failure.exitcode == EXIT_STALLED for failure in failures.values())
            restart = {"rank": rank, "why": why, "failure": failure, "at": time.time(), "stalled": stalled}
            restart.update({"ranks": ranks} if ranks != before else {})
            os.environ["LOCKSTEP_RESTART"] = json.dumps(restart)
            who = f"all {ranks} ranks start again" if ranks == before else f"{ranks} ranks continue"
            log(f"restart: {why}; {who} {from_step}")

    def _ranks_left(self, agent) -> int:
        """Ranks of this node: without the lost rank, if it is not replaced and there is a plan for fewer."""
        spec = agent._worker_group.spec
        fewer = [world for world in plans_in(self.folder) if world < spec.local_world_size]
        if self.shrink and fewer and agent._worker_group.group_world_size == 1:
            spec.local_world_size = max(fewer)
        return spec.local_world_size

    def _latest(self) -> int:
        return max(steps_in(self.saved), default=0)


def log(text: str) -> None:
    print(f"lockstep: {text}", file=sys.stderr, flush=True)
