"""measured.json: what the stages of a run spend on a step, by the steps that were looked at. `lockstep replan` reads it."""
import json
import os
import statistics
from typing import Dict, List, Optional

FORMAT = "lockstep-times-1"
# Steps that are remembered.
MOST = 64


class Measured:
    def __init__(self) -> None:
        # Of the steps that nobody looked at, which take no longer for it, and of the stages in those that somebody did.
        self.steps: List[float] = []
        self.stages: List[Dict[int, Dict]] = []

    def step(self, seconds: float) -> None:
        self.steps = [*self.steps, seconds][-MOST:]

    def add(self, every: List[Dict]) -> None:
        """By rank: the middle of those of a stage."""
        stages = {}
        for pp in sorted({row["pp"] for row in every}):
            rows = [row for row in every if row["pp"] == pp]
            labels = sorted({label for row in rows for label in row["network"]})
            network = {label: statistics.median(row["network"].get(label, 0.0) for row in rows) for label in labels}
            stages[pp] = {**{name: statistics.median(row["work"][name] for row in rows) for name in rows[0]["work"]}, "network": network}
        self.stages = [*self.stages, stages][-MOST:]

    def write(self, folder: str, memory: Optional[int]) -> None:
        if not self.stages or not self.steps:
            return
        path = os.path.join(folder, "measured.json")
        said = {"format": FORMAT, "steps": len(self.stages), "step": statistics.median(self.steps), "instructions": [], "messages": []}
        said["stages"] = [{"pp": pp, **self._middle(pp)} for pp in self.stages[-1]]
        with open(path + ".part", "w") as file:
            file.write(json.dumps({**said, **({"memory": memory} if memory else {})}, indent=1) + "\n")
        os.replace(path + ".part", path)

    def _middle(self, pp: int) -> Dict:
        rows = [stages[pp] for stages in self.stages if pp in stages]
        middle = {name: statistics.median(row[name] for row in rows) for name in ("passes", "updates")}
        labels = sorted({label for row in rows for label in row["network"]})
        return {**middle, "network": {label: statistics.median(row["network"].get(label, 0.0) for row in rows) for label in labels}}
