"""
Data loading by sample index. The samples of a step depend only on the seed and the step, and a rank reads only its own: the same order
as in Lockstep's engine, under every plan.
"""
import json
import os
import re
from typing import Callable, Dict, Sequence, Tuple

import torch

from . import counter, parts

IGNORED = -100
MANY = 2**30
# Added to a 32-bit id: the token is an input, but its loss is masked.
NO_TARGET = 2**31


class Samples:
    """`row(name, sample)` is one input of one sample."""

    count = MANY

    def row(self, name: str, sample: int) -> torch.Tensor:
        raise NotImplementedError

    def blank(self, name: str) -> torch.Tensor:
        """Padding for a missing sample."""
        row = self.row(name, 0)
        return torch.full_like(row, IGNORED if name == "labels" else 0)


class Tokens(Samples):
    """Contiguous sequences of `seq` tokens of a file; labels are the next tokens."""

    def __init__(self, path: str, width: int, samples: int, seq: int, first_token: int = 0):
        dtype = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[width]
        size = os.path.getsize(path) // width
        self.ids = torch.from_file(path, shared=False, size=size, dtype=dtype)
        self.mask = 256**width - 1
        self.seq, self.count, self.first_token = seq, samples, first_token

    def row(self, name: str, sample: int) -> torch.Tensor:
        ahead = 1 if name == "labels" else 0
        at = self.first_token + sample * self.seq + ahead
        ids = self.ids[at : at + self.seq].long() & self.mask
        if ahead:
            return torch.where(ids >= NO_TARGET, torch.full_like(ids, IGNORED), ids)
        return ids % NO_TARGET


class Progressions(Samples):
    """Synthetic: arithmetic progressions with a random stride per sequence; the first label is unpredictable and ignored."""

    def __init__(self, vocab: int, seq: int, seed: int):
        self.vocab, self.seq, self.seed = vocab, seq, seed

    def row(self, name: str, sample: int) -> torch.Tensor:
        start, stride = (counter.uniform_at(2 * sample + i, self.seed, "progressions") for i in (0, 1))
        first, by, ahead = int(start * self.vocab), 1 + int(stride * 3), 1 if name == "labels" else 0
        row = (first + (torch.arange(self.seq) + ahead) * by) % self.vocab
        if ahead:
            row[0] = IGNORED
        return row


class Rotations(Samples):
    """Synthetic: random vectors; the target is the vector rotated by one place and halved."""

    def __init__(self, embed: int, seq: int, seed: int):
        self.embed, self.seq, self.seed = embed, seq, seed

    def row(self, name: str, sample: int) -> torch.Tensor:
        index = torch.arange(self.seq * self.embed)
        turned = index - index % self.embed + (index + 1) % self.embed
        index = turned if name == "target" else index
        noise = counter.normal(sample * len(index) + index, self.seed, "rotations")
        return (noise / 2 if name == "target" else noise).float().reshape(self.seq, self.embed)


class Beyond(Samples):
    """Samples after those of another dataset: for validation."""

    def __init__(self, shown: Samples):
        self.shown = shown

    def row(self, name: str, sample: int) -> torch.Tensor:
        return self.shown.row(name, sample + self.shown.count)


class Packed(Samples):
    """
    Packed sequences: documents end with an EOS token, and positions restart in each. With `pad`, every document is padded to a multiple
    of it.
    """

    def __init__(self, samples: Samples, eod: int, eod_mask_loss: bool, pad: int):
        self.samples, self.eod, self.eod_mask_loss, self.pad = samples, eod, eod_mask_loss, pad
        self.count = samples.count

    def row(self, name: str, sample: int) -> torch.Tensor:
        tokens = self.samples.row("tokens", sample)
        index = torch.arange(len(tokens))
        # In each run of `pad` tokens, those after the first EOS are padding.
        separates = tokens == self.eod
        runs = separates.reshape(-1, self.pad)
        fills = ((runs.cumsum(1) - runs.long()) > 0).flatten()
        if name == "positions":
            after = runs.any(1).roll(1)
            after[0] = True
            begins = after.repeat_interleave(self.pad) & (index % self.pad == 0)
            return index - torch.where(begins, index, 0).cummax(0).values
        row = self.samples.row(name, sample)
        if name == "tokens":
            return row.masked_fill(fills, self.eod)
        if name != "labels":
            return row
        # The EOS of a document predicts the first token of the next one, or its loss is masked.
        following = torch.full_like(row, IGNORED) if self.eod_mask_loss else row[index - index % self.pad + self.pad - 1]
        return torch.where(separates, following, row).masked_fill(fills, IGNORED)

    def blank(self, name: str) -> torch.Tensor:
        blank = super().blank(name)
        return torch.arange(len(blank)) % self.pad if name == "positions" else blank


class Ordered(Samples):
    """Permutes tokens for context parallelism that shards each document in zigzag; data is stored in order."""

    def __init__(self, samples: Samples, ranks: int):
        self.samples, self.ranks = samples, ranks
        self.count = samples.count

    def row(self, name: str, sample: int) -> torch.Tensor:
        return self._laid(name, lambda of: self.samples.row(of, sample))

    def blank(self, name: str) -> torch.Tensor:
        return self._laid(name, self.samples.blank)

    def _laid(self, name: str, row: Callable[[str], torch.Tensor]) -> torch.Tensor:
        if name != "order" and self.ranks == 1:
            return row(name)
        order = parts.order(row("positions"), self.ranks)
        return order if name == "order" else row(name)[order]


def _packed(samples: Samples, run: Dict, ranks: int) -> Samples:
    documents = run.get("documents")
    if not documents:
        return samples
    packed = Packed(samples, documents["eod"], documents["eodMaskLoss"], documents["pad"])
    return Ordered(packed, ranks)


class Sizes:
    """Global batch size per step. `ramp` lists the sizes of a batch-size warmup, each with the samples at which it ends."""

    def __init__(self, global_batch: int, ramp: Sequence[Dict] = ()):
        self.global_batch, self.ramp = global_batch, ramp

    def at(self, step: int) -> Tuple[int, int]:
        """Global batch size of a step, from 0, and the number of samples in all steps before it."""
        first = 0
        for earlier in self.ramp:
            size = earlier["globalBatch"]
            steps = max(0, -((first - earlier["until"]) // size))
            if step < steps:
                return size, first + step * size
            first, step = first + steps * size, step - steps
        return self.global_batch, first + step * self.global_batch


class Batches:
    def __init__(self, samples: Samples, sizes: Sizes, seed: int):
        self.samples, self.sizes, self.seed = samples, sizes, seed

    def sample(self, number: int) -> int:
        """Each epoch visits every sample once, in its own random order."""
        epoch, place = divmod(number, self.samples.count)
        return counter.permutation(place, self.samples.count, self.seed, "order", epoch)

    def part(self, step: int, name: str, starts: Sequence[parts.Start], sizes: Sequence[int]) -> torch.Tensor:
        """A shard of the global batch of a step: samples from starts[0] on, and a slice of each."""
        first = self.sizes.at(step)[1] + starts[0]
        rows = torch.stack([self.row(name, first + i) for i in range(sizes[0])])
        for dim in range(1, len(sizes)):
            rows = parts.narrow(rows, dim, starts[dim], sizes[dim])
        return rows

    def row(self, name: str, number: int) -> torch.Tensor:
        return self.samples.row(name, self.sample(number))

    def has(self, step: int) -> bool:
        return True

    def cursor(self, steps: int) -> Dict:
        """The dataloader state after this number of steps."""
        seen = self.sizes.at(steps)[1]
        return {"samples": seen, "epoch": seen // self.samples.count}


class Repeating(Batches):
    """Replays recorded MoE routing: a line of JSON per step. The last line of a step counts."""

    def __init__(self, samples: Samples, sizes: Sizes, seed: int, path: str):
        super().__init__(samples, sizes, seed)
        self.path, self.places, self.known = path, {}, (-1, {})
        with open(path, "rb") as file:
            at = index = 0
            for line in file:
                if line.strip():
                    named = re.match(rb'\s*\{\s*"step"\s*:\s*(\d+)', line[:64])
                    self.places[int(named[1]) - 1 if named else index] = at
                    index += 1
                at += len(line)

    def part(self, step: int, name: str, starts: Sequence[parts.Start], sizes: Sequence[int]) -> torch.Tensor:
        if not name.endswith(".choices"):
            return super().part(step, name, starts, sizes)
        batch, before = self.sizes.at(step)
        rows = self._whole(step, name[: -len(".choices")], batch, sizes[2])[starts[0] : starts[0] + sizes[0]]
        if isinstance(self.samples, Ordered):
            first = before + starts[0]
            rows = torch.stack([row[self.row("order", first + i)] for i, row in enumerate(rows)])
        return parts.narrow(rows, 1, starts[1], sizes[1])

    def _whole(self, step: int, layer: str, batch: int, chosen: int) -> torch.Tensor:
        said = f"step {step + 1} of {self.path}, routing of {layer}"
        try:
            whole = torch.tensor(self.choices(step, layer), dtype=torch.int64).reshape(batch, -1, chosen)
        except (TypeError, ValueError, RuntimeError) as wrong:
            raise RuntimeError(f"{said}: not {chosen} numbers for each token of {batch} sequences ({wrong})") from None
        if (whole < 0).any():
            raise RuntimeError(f"{said}: {int(whole.min())} is not an expert index")
        if chosen > 1 and (whole.sort(-1).values.diff(dim=-1) == 0).any():
            raise RuntimeError(f"{said}: a token selects an expert twice")
        return whole

    def choices(self, step: int, layer: str):
        if not self.has(step):
            raise RuntimeError(f"{self.path} has {len(self.places)} steps, but step {step + 1} is needed")
        if self.known[0] != step:
            with open(self.path, "rb") as file:
                file.seek(self.places[step])
                self.known = (step, json.loads(file.readline()))
        if layer not in self.known[1]:
            raise RuntimeError(f"step {step + 1} of {self.path} has no routing of {layer}")
        return self.known[1][layer]

    def has(self, step: int) -> bool:
        return step in self.places


class InOrder(Batches):
    """Each sample once; the last batch is padded."""

    def row(self, name: str, number: int) -> torch.Tensor:
        return self.samples.row(name, number) if number < self.samples.count else self.samples.blank(name)


def _synthetic(run: Dict) -> Samples:
    data, seq, seed = run["data"], run["seq"], run["seed"]
    if data["kind"] == "progressions":
        return Progressions(data["vocab"], seq, seed)
    return Rotations(data["embed"], seq, seed)


def batches_of(run: Dict, folder: str, ranks: int = 1) -> Batches:
    """`ranks`: the number of ranks that each document is sharded over, which permutes its tokens."""
    data = run["data"]
    if data["kind"] == "tokens":
        samples: Samples = Tokens(os.path.join(folder, data["file"]), data["width"], data["samples"], run["seq"])
    else:
        samples = _synthetic(run)
    kept = _packed(samples, run, ranks), Sizes(run["globalBatch"], run.get("batchRamp", ())), run["seed"]
    return Repeating(*kept, os.path.join(folder, run["choices"])) if "choices" in run else Batches(*kept)


def held_out_of(run: Dict, folder: str, ranks: int = 1) -> Batches:
    data = run["data"]
    if data["kind"] == "tokens":
        held, path = data["heldOut"], os.path.join(folder, data["file"])
        samples: Samples = Tokens(path, data["width"], held["samples"], run["seq"], held["firstToken"])
    else:
        samples = Beyond(_synthetic(run))
    return InOrder(_packed(samples, run, ranks), Sizes(run["globalBatch"]), run["seed"])
