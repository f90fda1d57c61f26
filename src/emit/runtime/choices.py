"""
Recorded MoE routing, in the format that `data.routing` of a job replays: a line of JSON per step, with the routing decisions of each
routed layer for the global batch. The file is append-only.
"""
import json
import os
from typing import Dict, List, Tuple

import torch
import torch.distributed as dist

from . import parts
from .data import Batches, Ordered
from .lock import Refused

# A layer, the offsets of the decisions in the global batch and in the sequence, and the decisions: [batch seq choice].
Made = Tuple[str, int, parts.Start, torch.Tensor]


class ChoiceFile:
    """Opened by all ranks together; rank 0 writes. A resumed run may append to its earlier file."""

    def __init__(self, path: str, taken: int, rank: int, store):
        self.path, self.rank = path, rank
        if rank == 0:
            store.set("choices", self._open(taken))
        refused = store.get("choices").decode()
        if refused:
            raise Refused(refused)

    def _open(self, taken: int) -> str:
        """Checks the file before training begins. Returns what is wrong with it."""
        if os.path.exists(self.path) and taken == 0:
            return f"{self.path} exists already; name another file"
        try:
            with open(self.path, "ab+") as file:
                # A run that was killed while writing left a partial line.
                if file.tell() > 0:
                    file.seek(-1, os.SEEK_END)
                    if file.read() != b"\n":
                        file.write(b"\n")
        except OSError as error:
            return f"cannot write {self.path}: {error.strerror}"
        return ""

    def write(self, step: int, made: List[Made], data: Batches) -> None:
        """Writes the routing of a step, counted from 0, gathered from all ranks."""
        every = [None] * dist.get_world_size() if self.rank == 0 else None
        dist.gather_object(made, every)
        if every is None:
            return
        whole = whole_of(step, [one for of_rank in every for one in of_rank], data)
        layers = {layer: whole[layer].tolist() for layer in sorted(whole, key=lambda name: int(name.rsplit(".", 1)[1]))}
        with open(self.path, "a") as file:
            file.write(json.dumps({"step": step + 1, **layers}, separators=(",", ":")) + "\n")


def whole_of(step: int, made: List[Made], data: Batches) -> Dict[str, torch.Tensor]:
    """By layer, the decisions of all tokens in data order."""
    batch, before = data.sizes.at(step)
    tokens = {layer: 0 for layer, *_ in made}
    for layer, _, start, choice in made:
        tokens[layer] = max(tokens[layer], int(parts.positions(start, choice.shape[1])[-1]) + 1)
    whole = {layer: torch.full((batch, tokens[layer], choice.shape[2]), -1, dtype=torch.int32) for layer, _, _, choice in made}
    for layer, first, start, choice in made:
        whole[layer][first : first + len(choice), parts.positions(start, choice.shape[1])] = choice
    if isinstance(data.samples, Ordered):
        orders = torch.stack([data.row("order", before + i) for i in range(batch)])
        whole = {layer: x.gather(1, torch.argsort(orders, dim=1).unsqueeze(-1).expand(x.shape)) for layer, x in whole.items()}
    return whole
