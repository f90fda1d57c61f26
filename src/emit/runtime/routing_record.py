"""
Recorded MoE routing, in the format that `data.routing` of a job replays: a line of JSON per step, with the routing decisions of each
routed layer for the global batch. The file is append-only.
"""
import json
import os
from typing import Dict, List, Tuple

import torch
import torch.distributed as dist

from . import shards
from .data import Batches, ZigzagDocuments
from .lock import Refused

# A layer, the offsets of the decisions in the global batch and in the sequence, and the decisions: [batch seq choice].
Decisions = Tuple[str, int, shards.Start, torch.Tensor]


class RoutingFile:
    """Opened by all ranks together; rank 0 writes. A resumed run may append to its earlier file."""

    def __init__(self, path: str, step: int, rank: int, store: dist.Store):
        self.path, self.rank = path, rank
        if rank == 0:
            store.set("choices", self._open(step))
        refused = store.get("choices").decode()
        if refused:
            raise Refused(refused)

    def _open(self, step: int) -> str:
        """Checks the file before training begins. Returns what is wrong with it."""
        if os.path.exists(self.path) and step == 0:
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

    def write(self, step: int, decisions: List[Decisions], data: Batches) -> None:
        """Writes the routing of a step, counted from 0, gathered from all ranks."""
        gathered = [None] * dist.get_world_size() if self.rank == 0 else None
        dist.gather_object(decisions, gathered)
        if gathered is None:
            return
        full = full_batch(step, [decision for of_rank in gathered for decision in of_rank], data)
        layers = {layer: full[layer].tolist() for layer in sorted(full, key=lambda name: int(name.rsplit(".", 1)[1]))}
        with open(self.path, "a") as file:
            file.write(json.dumps({"step": step + 1, **layers}, separators=(",", ":")) + "\n")


def full_batch(step: int, decisions: List[Decisions], data: Batches) -> Dict[str, torch.Tensor]:
    """By layer, the decisions of all tokens in data order."""
    batch, before = data.sizes.at(step)
    tokens = {layer: 0 for layer, *_ in decisions}
    for layer, _, start, expert_ids in decisions:
        tokens[layer] = max(tokens[layer], int(shards.positions(start, expert_ids.shape[1])[-1]) + 1)
    full = {layer: torch.full((batch, tokens[layer], expert_ids.shape[2]), -1, dtype=torch.int32) for layer, _, _, expert_ids in decisions}
    for layer, first, start, expert_ids in decisions:
        full[layer][first : first + len(expert_ids), shards.positions(start, expert_ids.shape[1])] = expert_ids
    if isinstance(data.samples, ZigzagDocuments):
        orders = torch.stack([data.row("order", before + i) for i in range(batch)])
        full = {layer: x.gather(1, torch.argsort(orders, dim=1).unsqueeze(-1).expand(x.shape)) for layer, x in full.items()}
    return full
