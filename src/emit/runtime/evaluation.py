"""
Validation during training: a forward-only program of its own (the folder `evaluation`), on the parameter tensors of the training
program.
"""
import os
from typing import Optional

from .comm import Groups
from .data import held_out_of
from .here import Here
from .stage import Stage


class Judge:
    def __init__(self, folder: str, programs: str, program, settings, trained: Stage, groups: Groups, compiled: bool):
        here = trained.here
        data = held_out_of(settings, folder, program.get("documentRanks", 1))
        self.here = Here(here.mesh, here.rank, groups, here.device, here.dtypes, data, here.seed)
        self.stage = Stage(os.path.join(programs, "evaluation"), program, self.here, compiled, trained)
        self.trained = trained
        self.batches = settings["evaluation"]["batches"]

    def loss(self) -> Optional[float]:
        """Mean validation loss over all labels, on ranks that have it; of the EMA weights, if the run keeps them."""
        total = count = 0.0
        before = self.trained.swap_averages()
        for batch in range(self.batches):
            self.stage.run(batch, {})
            loss, counted = self.stage.result("loss"), self.stage.result("count")
            if loss is not None and counted is not None:
                total, count = total + loss.item(), count + counted.item()
        self.trained.put_back(before)
        return total / count if count else None
