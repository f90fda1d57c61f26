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
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.distributed as dist

from .spoken import phrase


class Found(NamedTuple):
    """The finding of one rank: the call in its schedule, and the line of the stage's module, if there is one."""

    rank: int
    at: int
    segment: str
    block: str
    microbatch: int
    line: str

    def event(self) -> Dict:
        where = f"{self.segment}{f' of {self.block}' if self.block else ''}"
        microbatch = f" of microbatch {self.microbatch}" if self.microbatch >= 0 else ""
        said = f": {self.line}" if self.line else ", from finite inputs"
        in_microbatch = phrase(".microbatch", microbatch=self.microbatch) if self.microbatch >= 0 else ""
        return {
            "rank": self.rank,
            "where": f"{self.block or self.segment}{microbatch}",
            "place": phrase(".place", where=self.block or self.segment, microbatch=in_microbatch),
            "message": f"the first NaN or Inf is computed in {where}{microbatch} on rank {self.rank}, call {self.at}{said}",
            "advice": "try a smaller lr, a warmup or clip, or check the data of this step",
            **phrase(
                "notFinite/call",
                where=phrase(".segment-of", segment=self.segment, block=self.block) if self.block else self.segment,
                microbatch=in_microbatch,
                rank=self.rank,
                call=self.at,
                line=phrase(".line", line=self.line) if self.line else phrase(".given-finite"),
            ),
        }


def finite(values) -> bool:
    """Checks tensors and lists of them; anything but a floating-point tensor counts as finite."""
    if isinstance(values, (list, tuple)):
        return all(finite(each) for each in values)
    return not isinstance(values, torch.Tensor) or not values.is_floating_point() or bool(torch.isfinite(values).all())


class Lines:
    """Traces a function of a stage's module, and records the first statement whose result has NaN or Inf."""

    def __init__(self, function: Callable):
        self.code = function.__code__
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse("".join(lines)).body[0]
        # By line of the file: the first line of its statement, and the names that it assigns.
        self.statements: Dict[int, Tuple[int, List[str]]] = {}
        for statement in tree.body:
            targets = [node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
            for line in range(statement.lineno, statement.end_lineno + 1):
                self.statements[line + first - 1] = (statement.lineno + first - 1, targets)
        self.text = {first + i: line.strip() for i, line in enumerate(lines)}
        self.before: Optional[int] = None
        self.found: Optional[int] = None

    def __call__(self, frame, event, _):
        if frame.f_code is not self.code:
            return None
        if event in ("line", "return") and self.found is None:
            begun, targets = self.statements.get(self.before, (None, []))
            now = self.statements.get(frame.f_lineno, (None, []))[0]
            if begun is not None and (event == "return" or now != begun):
                if not finite([frame.f_locals.get(name) for name in targets]):
                    self.found = begun
            self.before = frame.f_lineno
        return self

    def said(self) -> str:
        return "" if self.found is None else f"{os.path.basename(self.code.co_filename)}:{self.found}: {self.text[self.found]}"


@contextmanager
def frames_kept(stage):
    """Restores the contents of all buffers at the end, so that calls may write to them in between."""
    before = [(frame, dict(frame)) for frame in stage.frames]
    try:
        yield
    finally:
        for i, (frame, held) in enumerate(before):
            frame.clear()
            frame.update(held)
            stage.frames[i] = frame


def look(stage, step: int, told: Dict[str, float], around) -> Optional[Found]:
    """Replays the step (collective). Returns the first finding, the same on all ranks; None: the replay is finite."""
    found: List[Found] = []

    def looking(i: int, call: Callable[[], None]) -> None:
        kind, name, *rest = stage.at
        if kind != "call" or found:
            return around(i, call) if around else call()
        block, microbatch, bind = rest
        segment = stage.segments[name]
        clean = finite([stage.frames[bind[role]].get(offset) for role, offset in segment.takes])
        lines = Lines(segment.plain)
        compiled, segment.function = segment.function, segment.plain
        sys.settrace(lines)
        try:
            around(i, call) if around else call()
        finally:
            sys.settrace(None)
            segment.function = compiled
        made = [stage.frames[bind[role]].get(offset) for role, offset in segment.gives]
        if clean and (lines.found is not None or not finite(made)):
            found.append(Found(stage.here.rank, i, name, block, microbatch, lines.said()))

    before, stage.around = stage.around, looking
    try:
        stage.here.start(step, told)
        stage.play(stage.first_update)
    finally:
        stage.around = before
    all_found: List[Optional[List]] = [found]
    if stage.here.mesh.world > 1:
        all_found *= stage.here.mesh.world
        dist.all_gather_object(all_found, [tuple(one) for one in found])
    each = [Found(*one) for ones in all_found for one in ones or []]
    return min(each, key=lambda one: (one.at, one.rank), default=None)
