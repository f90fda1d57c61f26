"""measured.json: time per step and stage, from profiled steps. `lockstep replan` reads it."""
import json
import os
import statistics
from typing import Dict, List

import torch

FORMAT = "lockstep-times-1"
# Steps in the sliding window.
WINDOW = 64


LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_of(device: torch.device) -> int:
    """Memory that this rank can use: its GPU's, without other processes, or its share of the host's or of the cgroup limit."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device)
    host = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([host, *filter(None, map(limit_in, LIMITS))]) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def limit_in(path: str) -> int:
    """0: no limit."""
    try:
        with open(path) as file:
            return int(file.read())
    except (OSError, ValueError):  # `max` in cgroup v2
        return 0


class Measured:
    def __init__(self) -> None:
        # Seconds of steps without profiling, which slows them; and of the stages in profiled steps.
        self.steps: List[float] = []
        self.stages: List[Dict[int, Dict]] = []
        # Usable bytes of the rank that has least.
        self.memory = 0

    def step(self, seconds: float) -> None:
        self.steps = [*self.steps, seconds][-WINDOW:]

    def add(self, every: List[Dict]) -> None:
        """Adds a profiled step: the medians over the ranks of each stage."""
        self.memory = min(row["memory"] for row in every)
        stages = {}
        for pp in sorted({row["pp"] for row in every}):
            rows = [row for row in every if row["pp"] == pp]
            labels = sorted({label for row in rows for label in row["network"]})
            network = {label: statistics.median(row["network"].get(label, 0.0) for row in rows) for label in labels}
            stages[pp] = {**{name: statistics.median(row["work"][name] for row in rows) for name in rows[0]["work"]}, "network": network}
        self.stages = [*self.stages, stages][-WINDOW:]

    def write(self, folder: str) -> None:
        if not self.stages or not self.steps:
            return
        path = os.path.join(folder, "measured.json")
        content = {"format": FORMAT, "steps": len(self.stages), "step": statistics.median(self.steps), "instructions": [], "messages": []}
        content["stages"] = [{"pp": pp, **self._medians(pp)} for pp in self.stages[-1]]
        with open(path + ".part", "w") as file:
            file.write(json.dumps({**content, "memory": self.memory}, indent=1) + "\n")
        os.replace(path + ".part", path)

    def _medians(self, pp: int) -> Dict:
        rows = [stages[pp] for stages in self.stages if pp in stages]
        medians = {name: statistics.median(row[name] for row in rows) for name in ("passes", "updates")}
        labels = sorted({label for row in rows for label in row["network"]})
        return {**medians, "network": {label: statistics.median(row["network"].get(label, 0.0) for row in rows) for label in labels}}
