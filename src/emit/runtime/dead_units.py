"""
Dead-unit detection: units of feed-forward layers, and full experts, whose gradient is exactly zero for many steps. Without a gradient
Adam's first moment decays by a known factor, so a few elements per unit are compared across one step now and then. State keeps its
address, so this works with CUDA graphs too.
"""
from typing import Dict, List, NamedTuple, Optional

import torch
import torch.distributed as dist

from .messages import listed, phrase

# Steps after which a layer is reported again.
SILENCE = 256


class Layer(NamedTuple):
    """Matrices that share their units, and the offset of these among those of all layers."""

    name: str
    params: List[Dict]
    first: int
    units: int
    experts: int


class Samples(NamedTuple):
    """The rank's shard of one matrix: the first moment, the elements that are sampled, and their units."""

    buffer: int
    elements: torch.Tensor
    units_of: torch.Tensor


class DeadUnits:
    """`settings` are those of run.json: the interval, the number of consecutive checks, which dims are units, and the decay of the moment."""

    def __init__(self, settings: Dict):
        self.settings = settings
        self.stage = None
        self.layers: List[Layer] = []
        self.samples: List[Samples] = []
        # Consecutive checks in which a unit had no gradient; and the samples from before the checked step.
        self.counts: Optional[torch.Tensor] = None
        self.before: Optional[List[torch.Tensor]] = None
        self.reported: Dict[str, int] = {}

    def after(self, stage, step: int, skipped: bool) -> Optional[Dict]:
        """Called after each step, counted from 1 (collective): the layer with the most dead units, if a check has just found some."""
        phase, before = step % self.settings["every"], self.before
        self.before = None
        if phase > 1 or skipped:
            return None
        if stage is not self.stage:
            self._open(stage)
        if self.counts is None or self.counts.numel() == 0:
            return None
        values = [torch.take(stage.values(sample.buffer), sample.elements).double() for sample in self.samples]
        if phase == 0:
            self.before = values
        if phase == 0 or before is None:
            return None
        alive = self._alive(before, values)
        self.counts = torch.where(alive, torch.zeros_like(self.counts), self.counts + 1)
        return self._worst()

    def _open(self, stage) -> None:
        self.stage = stage
        self.layers = layers_of(stage.params, self.settings["dims"])
        tracked = [
            (layer, param, param["frames"][str(stage.pp)]["states"]["m"])
            for layer in self.layers for param in layer.params if str(stage.pp) in param["frames"]
        ]
        self.samples = [Samples(buffer, *sample_elements(stage, layer, param, self.settings["dims"])) for layer, param, buffer in tracked]
        units = sum(layer.units for layer in self.layers)
        if self.counts is None:
            self.counts = torch.zeros(units, dtype=torch.int32, device=stage.ctx.device)

    def _alive(self, before: List[torch.Tensor], after: List[torch.Tensor]) -> torch.Tensor:
        """By unit: whether any rank has seen a gradient."""
        moved = torch.zeros_like(self.counts)
        for sample, was, now in zip(self.samples, before, after):
            differs = (now - self.settings["shrinks"] * was).abs() > self.settings["tolerance"] * was.abs()
            moved.index_add_(0, sample.units_of, differs.to(moved.dtype))
        if self.stage.ctx.mesh.world == 1:
            return moved > 0
        seen = (moved > 0).to(torch.uint8)
        dist.all_reduce(seen, dist.ReduceOp.MAX)
        return seen > 0

    def _worst(self) -> Optional[Dict]:
        dead = self.counts >= self.settings["looks"]
        sums = torch.stack([dead[layer.first : layer.first + layer.units].sum() for layer in self.layers]).tolist()
        dead_shares = [(count / layer.units, -i) for i, (layer, count) in enumerate(zip(self.layers, sums)) if count >= max(1, self.settings["share"] * layer.units)]
        if not dead_shares:
            return None
        i = -max(dead_shares)[1]
        layer = self.layers[i]
        found = {"layer": layer.name, "units": sums[i], "of": layer.units, "steps": self.settings["every"] * (self.settings["looks"] - 1)}
        if layer.experts > 1:
            dead_experts = dead[layer.first : layer.first + layer.units].view(layer.experts, -1).all(1).nonzero().flatten().tolist()
            found.update({"experts": dead_experts} if dead_experts else {})
        return found

    def event(self, step: int, found: Dict) -> Optional[Dict]:
        """The event to report, at most once in a while per layer."""
        layer = found["layer"]
        if layer in self.reported and step < self.reported[layer] + SILENCE:
            return None
        self.reported[layer] = step
        experts = found.get("experts", [])
        numbers = {"units": found["units"], "of": found["of"], "experts": len(experts), "steps": found["steps"]}
        fields = {"step": step, "event": "deadUnits", "severity": "warning", "where": layer, "numbers": numbers}
        if experts:
            advice = "balance the load: a higher update rate of the router bias (model.moe.bias), or a load-balancing loss (model.moe.loss)"
            template = phrase("deadUnits/experts", experts={"joint": "and", "of": experts}, steps=found["steps"])
            return {**fields, **template, "message": f"no token is routed to expert {listed(experts)}: no gradient for {found['steps']} steps", "advice": advice}
        advice = (
            "resume from an earlier checkpoint with a smaller lr, a longer warmup or clip: "
            "an update that is too large can leave units without a gradient"
        )
        message = f"{found['units']} of {found['of']} units have had no gradient for {found['steps']} steps: they are dead"
        template = phrase("deadUnits", units=found["units"], of=found["of"], steps=found["steps"])
        return {**fields, **template, "message": message, "advice": advice}


def layers_of(params: List[Dict], unit_dims: List[str]) -> List[Layer]:
    """The layers of all stages."""
    by_layer: Dict[str, List[Dict]] = {}
    for param in params:
        names = [dim["name"] for dim in param["dims"]]
        is_tracked = any("m" in tracked["states"] for tracked in param["frames"].values()) and "m" not in param.get("apart", {})
        if is_tracked and "embed" in names and any(name in unit_dims for name in names):
            by_layer.setdefault(param["name"].rpartition(".")[0], []).append(param)
    layers: List[Layer] = []
    for name, own in by_layer.items():
        sizes = {dim["name"]: dim["size"] for dim in own[0]["dims"]}
        experts = sizes.get("expert", 1)
        each = next(size for dim, size in sizes.items() if dim in unit_dims)
        first = layers[-1].first + layers[-1].units if layers else 0
        layers.append(Layer(name, own, first, experts * each, experts))
    return layers


def sample_elements(stage, layer: Layer, param: Dict, unit_dims: List[str]):
    """Samples three elements per unit, at the first, the middle and the last feature, if the rank's shard has them."""
    dims, layout, ctx = param["dims"], param["state"], stage.ctx
    names = [dim["name"] for dim in dims]
    starts, sizes, _ = ctx.mesh.shard_box(dims, layout, ctx.rank)
    begin, end = ctx.mesh.flat_range(sizes, layout, ctx.rank)
    strides = [torch.Size(sizes[i + 1 :]).numel() for i in range(len(sizes))]
    unit, feature = next(i for i, name in enumerate(names) if name in unit_dims), names.index("embed")
    units, embed = dims[unit]["size"], dims[feature]["size"]

    def along(dim: int):
        index = torch.arange(starts[dim], starts[dim] + sizes[dim], device=ctx.device)
        return index, (index - starts[dim]) * strides[dim]

    rows, at = along(unit)
    if "expert" in names:
        experts, of = along(names.index("expert"))
        rows, at = (experts[:, None] * units + rows).flatten(), (of[:, None] + at).flatten()
    features = [f - starts[feature] for f in (0, embed >> 1, embed - 1) if 0 <= f - starts[feature] < sizes[feature]]
    elements = torch.cat([at[:0], *(at + f * strides[feature] for f in features)])
    units_of = torch.cat([rows[:0], *(rows for _ in features)])
    is_local = (elements >= begin) & (elements < end)
    return elements[is_local] - begin, units_of[is_local] + layer.first
