"""
Validation during training: a forward-only program of its own (the folder `evaluation`), on the parameter tensors of the training
program.
"""
import os
from typing import Optional

from .comm import Groups
from .context import Context
from .data import validation_batches
from .stage import Stage


class Evaluator:
    def __init__(self, folder: str, programs: str, program, settings, trained: Stage, groups: Groups, compiled: bool):
        ctx = trained.ctx
        data = validation_batches(settings, folder, program.get("documentRanks", 1))
        self.ctx = Context(ctx.mesh, ctx.rank, groups, ctx.device, ctx.dtypes, data, ctx.seed)
        self.stage = Stage(os.path.join(programs, "evaluation"), program, self.ctx, compiled, trained)
        self.trained = trained
        self.batches = settings["evaluation"]["batches"]

    def loss(self) -> Optional[float]:
        """Mean validation loss over all labels, on ranks that have it; of the EMA weights, if the run keeps them."""
        total = count = 0.0
        before = self.trained.swap_ema()
        for batch in range(self.batches):
            self.stage.run(batch, {})
            loss, counted = self.stage.result("loss"), self.stage.result("count")
            if loss is not None and counted is not None:
                total, count = total + loss.item(), count + counted.item()
        self.trained.restore_weights(before)
        return total / count if count else None
