"""
Data loading by sample index. The samples of a step depend only on the seed and the step, and a rank reads only its own: the same order
as in Lockstep's engine, under every plan.
"""
import json
import os
import re
from typing import Callable, Dict, Sequence, Tuple

import torch

from . import philox, shards

IGNORED = -100
UNLIMITED = 2**30
# Added to a 32-bit id: the token is an input, but its loss is masked.
NO_LABEL = 2**31


class Samples:
    """`row(name, sample)` is one input of one sample."""

    count = UNLIMITED

    def row(self, name: str, sample: int) -> torch.Tensor:
        raise NotImplementedError

    def padding_row(self, name: str) -> torch.Tensor:
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
        offset = self.first_token + sample * self.seq + ahead
        ids = self.ids[offset : offset + self.seq].long() & self.mask
        if ahead:
            return torch.where(ids >= NO_LABEL, torch.full_like(ids, IGNORED), ids)
        return ids % NO_LABEL


class Progressions(Samples):
    """Synthetic: arithmetic progressions with a random stride per sequence; the first label is unpredictable and ignored."""

    def __init__(self, vocab: int, seq: int, seed: int):
        self.vocab, self.seq, self.seed = vocab, seq, seed

    def row(self, name: str, sample: int) -> torch.Tensor:
        start, stride = (philox.uniform_at(2 * sample + i, self.seed, "progressions") for i in (0, 1))
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
        rotated = index - index % self.embed + (index + 1) % self.embed
        index = rotated if name == "target" else index
        noise = philox.normal(sample * len(index) + index, self.seed, "rotations")
        return (noise / 2 if name == "target" else noise).float().reshape(self.seq, self.embed)


class AfterTrainingData(Samples):
    """Samples after those of another dataset: for validation."""

    def __init__(self, trained: Samples):
        self.trained = trained

    def row(self, name: str, sample: int) -> torch.Tensor:
        return self.trained.row(name, sample + self.trained.count)


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
        is_eod = tokens == self.eod
        runs = is_eod.reshape(-1, self.pad)
        is_padding = ((runs.cumsum(1) - runs.long()) > 0).flatten()
        if name == "positions":
            after = runs.any(1).roll(1)
            after[0] = True
            begins = after.repeat_interleave(self.pad) & (index % self.pad == 0)
            return index - torch.where(begins, index, 0).cummax(0).values
        row = self.samples.row(name, sample)
        if name == "tokens":
            return row.masked_fill(is_padding, self.eod)
        if name != "labels":
            return row
        # The EOS of a document predicts the first token of the next one, or its loss is masked.
        following = torch.full_like(row, IGNORED) if self.eod_mask_loss else row[index - index % self.pad + self.pad - 1]
        return torch.where(is_eod, following, row).masked_fill(is_padding, IGNORED)

    def padding_row(self, name: str) -> torch.Tensor:
        padding_row = super().padding_row(name)
        return torch.arange(len(padding_row)) % self.pad if name == "positions" else padding_row


class ZigzagDocuments(Samples):
    """Permutes tokens for context parallelism that shards each document in zigzag; data is stored in order."""

    def __init__(self, samples: Samples, ranks: int):
        self.samples, self.ranks = samples, ranks
        self.count = samples.count

    def row(self, name: str, sample: int) -> torch.Tensor:
        return self._permuted(name, lambda of: self.samples.row(of, sample))

    def padding_row(self, name: str) -> torch.Tensor:
        return self._permuted(name, self.samples.padding_row)

    def _permuted(self, name: str, row: Callable[[str], torch.Tensor]) -> torch.Tensor:
        if name != "order" and self.ranks == 1:
            return row(name)
        order = shards.zigzag_document_order(row("positions"), self.ranks)
        return order if name == "order" else row(name)[order]


def _packed(samples: Samples, run: Dict, ranks: int) -> Samples:
    documents = run.get("documents")
    if not documents:
        return samples
    packed = Packed(samples, documents["eod"], documents["eodMaskLoss"], documents["pad"])
    return ZigzagDocuments(packed, ranks)


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
        epoch, index = divmod(number, self.samples.count)
        return philox.permutation(index, self.samples.count, self.seed, "order", epoch)

    def shard(self, step: int, name: str, starts: Sequence[shards.Start], sizes: Sequence[int]) -> torch.Tensor:
        """A shard of the global batch of a step: samples from starts[0] on, and a slice of each."""
        first = self.sizes.at(step)[1] + starts[0]
        rows = torch.stack([self.row(name, first + i) for i in range(sizes[0])])
        for dim in range(1, len(sizes)):
            rows = shards.narrow(rows, dim, starts[dim], sizes[dim])
        return rows

    def row(self, name: str, number: int) -> torch.Tensor:
        return self.samples.row(name, self.sample(number))

    def has(self, step: int) -> bool:
        return True

    def cursor(self, steps: int) -> Dict:
        """The dataloader state after this number of steps."""
        seen = self.sizes.at(steps)[1]
        return {"samples": seen, "epoch": seen // self.samples.count}


class ReplayedRouting(Batches):
    """Replays recorded MoE routing: a line of JSON per step. The last line of a step counts."""

    def __init__(self, samples: Samples, sizes: Sizes, seed: int, path: str):
        super().__init__(samples, sizes, seed)
        self.path, self.offsets, self.cached = path, {}, (-1, {})
        with open(path, "rb") as file:
            offset = index = 0
            for line in file:
                if line.strip():
                    named = re.match(rb'\s*\{\s*"step"\s*:\s*(\d+)', line[:64])
                    self.offsets[int(named[1]) - 1 if named else index] = offset
                    index += 1
                offset += len(line)

    def shard(self, step: int, name: str, starts: Sequence[shards.Start], sizes: Sequence[int]) -> torch.Tensor:
        if not name.endswith(".choices"):
            return super().shard(step, name, starts, sizes)
        batch, before = self.sizes.at(step)
        rows = self._full(step, name[: -len(".choices")], batch, sizes[2])[starts[0] : starts[0] + sizes[0]]
        if isinstance(self.samples, ZigzagDocuments):
            first = before + starts[0]
            rows = torch.stack([row[self.row("order", first + i)] for i, row in enumerate(rows)])
        return shards.narrow(rows, 1, starts[1], sizes[1])

    def _full(self, step: int, layer: str, batch: int, k: int) -> torch.Tensor:
        where = f"step {step + 1} of {self.path}, routing of {layer}"
        try:
            expert_ids = torch.tensor(self.routing(step, layer), dtype=torch.int64).reshape(batch, -1, k)
        except (TypeError, ValueError, RuntimeError) as error:
            raise RuntimeError(f"{where}: not {k} numbers for each token of {batch} sequences ({error})") from None
        if (expert_ids < 0).any():
            raise RuntimeError(f"{where}: {int(expert_ids.min())} is not an expert index")
        if k > 1 and (expert_ids.sort(-1).values.diff(dim=-1) == 0).any():
            raise RuntimeError(f"{where}: a token selects an expert twice")
        return expert_ids

    def routing(self, step: int, layer: str):
        if not self.has(step):
            raise RuntimeError(f"{self.path} has {len(self.offsets)} steps, but step {step + 1} is needed")
        if self.cached[0] != step:
            with open(self.path, "rb") as file:
                file.seek(self.offsets[step])
                self.cached = (step, json.loads(file.readline()))
        if layer not in self.cached[1]:
            raise RuntimeError(f"step {step + 1} of {self.path} has no routing of {layer}")
        return self.cached[1][layer]

    def has(self, step: int) -> bool:
        return step in self.offsets


class Sequential(Batches):
    """Each sample once; the last batch is padded."""

    def row(self, name: str, number: int) -> torch.Tensor:
        return self.samples.row(name, number) if number < self.samples.count else self.samples.padding_row(name)


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
    args = _packed(samples, run, ranks), Sizes(run["globalBatch"], run.get("batchRamp", ())), run["seed"]
    return ReplayedRouting(*args, os.path.join(folder, run["choices"])) if "choices" in run else Batches(*args)


def validation_batches(run: Dict, folder: str, ranks: int = 1) -> Batches:
    data = run["data"]
    if data["kind"] == "tokens":
        validation, path = data["heldOut"], os.path.join(folder, data["file"])
        samples: Samples = Tokens(path, data["width"], validation["samples"], run["seq"], validation["firstToken"])
    else:
        samples = AfterTrainingData(_synthetic(run))
    return Sequential(_packed(samples, run, ranks), Sizes(run["globalBatch"]), run["seed"])
