"""
NaN tracing: finds the operation whose result was the first NaN or Inf. The step was skipped, so persistent state is unchanged: all
ranks replay it up to the first update, statement by statement, and check each result. The origin is the rank whose operands were finite
and whose result is not; NaN that was received does not count.
"""
import ast
import inspect
import os
import sys
from contextlib import contextmanager
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch
import torch.distributed as dist

from .messages import phrase


class Origin(NamedTuple):
    """The finding of one rank: the call in its schedule, and the line of the stage's module, if there is one."""

    rank: int
    at: int
    function_name: str
    block: str
    microbatch: int
    line: str

    def event(self) -> Dict:
        where = f"{self.function_name}{f' of {self.block}' if self.block else ''}"
        microbatch = f" of microbatch {self.microbatch}" if self.microbatch >= 0 else ""
        location = f": {self.line}" if self.line else ", from finite inputs"
        in_microbatch = phrase(".microbatch", microbatch=self.microbatch) if self.microbatch >= 0 else ""
        return {
            "rank": self.rank,
            "where": f"{self.block or self.function_name}{microbatch}",
            "place": phrase(".place", where=self.block or self.function_name, microbatch=in_microbatch),
            "message": f"the first NaN or Inf is computed in {where}{microbatch} on rank {self.rank}, call {self.at}{location}",
            "advice": "try a smaller lr, a warmup or clip, or check the data of this step",
            **phrase(
                "notFinite/call",
                where=phrase(".segment-of", segment=self.function_name, block=self.block) if self.block else self.function_name,
                microbatch=in_microbatch,
                rank=self.rank,
                call=self.at,
                line=phrase(".line", line=self.line) if self.line else phrase(".given-finite"),
            ),
        }


def is_finite(values) -> bool:
    """Checks tensors and lists of them; anything but a floating-point tensor counts as finite."""
    if isinstance(values, (list, tuple)):
        return all(is_finite(each) for each in values)
    return not isinstance(values, torch.Tensor) or not values.is_floating_point() or bool(torch.isfinite(values).all())


class StatementTracer:
    """Traces a function of a stage's module, and records the first statement whose result has NaN or Inf."""

    def __init__(self, function: Callable):
        self.code = function.__code__
        source_lines, first = inspect.getsourcelines(function)
        tree = ast.parse("".join(source_lines)).body[0]
        # By line of the file: the first line of its statement, and the names that it assigns.
        self.statements: Dict[int, Tuple[int, List[str]]] = {}
        for statement in tree.body:
            targets = [node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
            for line in range(statement.lineno, statement.end_lineno + 1):
                self.statements[line + first - 1] = (statement.lineno + first - 1, targets)
        self.source = {first + i: line.strip() for i, line in enumerate(source_lines)}
        self.before: Optional[int] = None
        self.found: Optional[int] = None

    def __call__(self, frame, event, _):
        if frame.f_code is not self.code:
            return None
        if event in ("line", "return") and self.found is None:
            statement_line, targets = self.statements.get(self.before, (None, []))
            line_now = self.statements.get(frame.f_lineno, (None, []))[0]
            if statement_line is not None and (event == "return" or line_now != statement_line):
                if not is_finite([frame.f_locals.get(name) for name in targets]):
                    self.found = statement_line
            self.before = frame.f_lineno
        return self

    def location(self) -> str:
        return "" if self.found is None else f"{os.path.basename(self.code.co_filename)}:{self.found}: {self.source[self.found]}"


@contextmanager
def buffers_restored(stage) -> Iterator[None]:
    """Restores the contents of all buffers at the end, so that calls may write to them in between."""
    before = [(frame, dict(frame)) for frame in stage.buffers]
    try:
        yield
    finally:
        for i, (frame, saved) in enumerate(before):
            frame.clear()
            frame.update(saved)
            stage.buffers[i] = frame


def trace(stage, step: int, step_scalars: Dict[str, float], around) -> Optional[Origin]:
    """Replays the step (collective). Returns the first finding, the same on all ranks; None: the replay is finite."""
    found: List[Origin] = []

    def hook(i: int, call: Callable[[], None]) -> None:
        kind, name, *rest = stage.at
        if kind != "call" or found:
            return around(i, call) if around else call()
        block, microbatch, bind = rest
        function_name = stage.functions[name]
        inputs_finite = is_finite([stage.buffers[bind[role]].get(offset) for role, offset in function_name.inputs])
        source_lines = StatementTracer(function_name.eager)
        compiled, function_name.function = function_name.function, function_name.eager
        sys.settrace(source_lines)
        try:
            around(i, call) if around else call()
        finally:
            sys.settrace(None)
            function_name.function = compiled
        outputs = [stage.buffers[bind[role]].get(offset) for role, offset in function_name.outputs]
        if inputs_finite and (source_lines.found is not None or not is_finite(outputs)):
            found.append(Origin(stage.ctx.rank, i, name, block, microbatch, source_lines.location()))

    before, stage.around = stage.around, hook
    try:
        stage.ctx.start(step, step_scalars)
        stage.run_schedule(stage.first_update)
    finally:
        stage.around = before
    gathered: List[Optional[List]] = [found]
    if stage.ctx.mesh.world > 1:
        gathered *= stage.ctx.mesh.world
        dist.all_gather_object(gathered, [tuple(one) for one in found])
    each = [Origin(*one) for ones in gathered for one in ones or []]
    return min(each, key=lambda one: (one.at, one.rank), default=None)
