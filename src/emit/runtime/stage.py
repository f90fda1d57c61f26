"""
Executes the schedule of one pipeline stage (stageN.json): allocates and frees buffers, calls the functions of stageN.py with their
tensors, starts sends and receives and waits for them. Only this file reads the schedule.
"""
import importlib.util
import json
import os
from typing import Callable, Dict, List, Optional, Tuple

import torch

from . import comm, einsum, flat_buffers, gemm, grouped_mm, offload, optimizer, philox
from .context import Context, disable_compile

# The tensors of a buffer, by offset.
Buffer = Dict[int, torch.Tensor]

COMPILED_PHASES = {"F", "I", "W", "B", "C"}
# Options of torch.compile.
COMPILE: Dict = {"dynamic": False}


class StageFunction:
    def __init__(self, function: Callable, inputs, outputs, list_slots, separate=False, eager: Optional[Callable] = None):
        # The function that is called (compiled or not), and the plain one.
        self.function, self.eager = function, eager or function
        # Whether it takes parameters that share one buffer separately.
        self.separate = separate
        # Arguments that are lists with one tensor per parameter (foreach).
        self.list_slots = set(list_slots)
        self.inputs: List[Tuple[int, int]] = [tuple(slot) for slot in inputs]
        self.outputs: List[Tuple[int, int]] = [tuple(slot) for slot in outputs]


class Stage:
    def __init__(
        self, folder: str, program: Dict, ctx: Context, compiled: bool = False, trained: "Optional[Stage]" = None, takes_over: bool = False
    ):
        """
        `trained`: the stage whose parameters this one uses, if it does not train its own. With `takes_over` it replaces that stage and
        takes over all its persistent state.
        """
        self.ctx = ctx
        self.pp = ctx.coordinates.get("pp", 0)
        with open(os.path.join(folder, f"stage{self.pp}.json")) as file:
            schedule = json.load(file)
        self.steps = schedule["steps"]
        # Buffers that are not on the device have further fields: memory tier, category and name.
        offloaded = {i: (buffer[3], buffer[1], buffer[0]) for i, buffer in enumerate(schedule["buffers"]) if buffer[3:]}
        self.on_host = bool(offloaded)
        if compiled:
            disable_compile()
        if trained is None:
            grouped_mm.start(ctx.device)
        if compiled and trained is None:
            optimizer.compile_updates(COMPILE, ctx.device, self.on_host)
            gemm.start(ctx.device)
        module = _load(os.path.join(folder, f"stage{self.pp}.py"))
        self.begins = {name for name, phase, *_ in schedule["functions"] if phase == "begin"}
        self.functions = {
            name: StageFunction(_compiled(getattr(module, name), compiled and phase in COMPILED_PHASES), *slots, eager=getattr(module, name))
            for name, phase, *slots in schedule["functions"]
        }
        self.phases = {name: phase for name, phase, *_ in schedule["functions"]}
        updates = {name for name, phase in self.phases.items() if phase == "update"}
        first = next((i for i, step in enumerate(self.steps) if len(step) > 1 and step[1] in updates), len(self.steps))
        self.first_update = first
        self.capacity_check_at = first if program.get("guarded") else None
        self.buffers: List[Buffer] = [{} for _ in schedule["buffers"]]
        self.params, self.results = program["params"], program["results"]
        if trained is None or takes_over:
            ctx.element_indices = self.element_indices
        # Buffers of scalars that persist across steps, equal on all ranks.
        self.scalar_buffers = {name: scalar["frames"][str(self.pp)] for name, scalar in program["scalars"].items()}
        self.initial_scalars = {name: scalar["start"] for name, scalar in program["scalars"].items()}
        fused = {buffer for buffers, _ in schedule.get("fused", []) for buffer in buffers}
        shared = {} if trained is None else self._shared_buffers(trained, fused)
        if takes_over:
            shared.update(self._persistent_buffers(trained))
        for buffer, tensors in schedule["persistent"]:
            if buffer in shared:
                self.buffers[buffer] = shared[buffer]
            else:
                self.buffers[buffer] = {
                    offset: ctx.zeros(sizes, dtype, *(capacity or [0]), *offloaded.get(buffer, ()))
                    for offset, sizes, dtype, *capacity in tensors
                }
        # Tensors that share the buffer of the first, as separate views.
        self.views: Dict[int, torch.Tensor] = {}
        for buffers, widths in schedule.get("fused", []):
            parts = einsum.split(self.buffers[buffers[0]][0], *widths)
            self.views.update(zip(buffers, parts))
        # Gradients in a shared buffer that some call reads individually: the first buffer, all widths, and the index of this one.
        self.fused_gradients = {buffer: (buffers[0], widths, i) for buffers, widths in schedule.get("fused_gradients", []) for i, buffer in enumerate(buffers)}
        # Results whose shard is read or written in place need capacity for padded shards.
        self.padded = {(buffer, offset): capacity for buffer, offset, capacity in schedule.get("padded", [])}
        self.pending: Dict[str, comm.Pending] = {}
        self.p2p_groups = ctx.groups.p2p_groups(ctx.mesh, ctx.rank, _p2p_pairs(ctx.mesh, folder))
        # A hook around every call of the step: gets its index and the call.
        self.around: Optional[Callable[[int, Callable[[], None]], None]] = None
        # The current position, for hang reports.
        self.at: List = ["start"]
        self.done = 0

    def _shared_buffers(self, trained: "Stage", fused) -> Dict[int, Buffer]:
        """By buffer of this stage: the buffer of `trained` with the same parameter; its own view, if it is not fused with others here."""
        pp = str(self.pp)
        other = {param["name"]: param["frames"] for param in trained.params}
        mine = [param for param in self.params if pp in param["frames"]]
        pairs = [(param["frames"][pp]["param"], other[param["name"]][pp]["param"]) for param in mine]
        return {
            buffer: {0: trained.views[of]} if of in trained.views and buffer not in fused else trained.buffers[of]
            for buffer, of in pairs
        }

    def _persistent_buffers(self, before: "Stage") -> Dict[int, Buffer]:
        """By buffer of this stage: the buffer of `before` with the same optimizer state, master weights or persistent scalar."""
        pp = str(self.pp)
        other = {param["name"]: param["frames"] for param in before.params}
        pairs = [(buffer, before.scalar_buffers[name]) for name, buffer in self.scalar_buffers.items()]
        for param in self.params:
            mine, others = param["frames"].get(pp), other[param["name"]].get(pp)
            if mine is not None:
                pairs += [(buffer, others["states"][state]) for state, buffer in mine["states"].items()]
                pairs += [(mine["master"], others["master"])] if "master" in mine else []
        return {buffer: before.buffers[of] for buffer, of in pairs}

    def initialize(self) -> None:
        """Initializes weights as the engine does, each rank its own shard."""
        self.set_scalars(self.initial_scalars)
        for param in self.params:
            for buffer, layout in [*self.stored(param), *self._ema(param)]:
                index = self._element_indices(param, layout)
                first = _initial_values(param, index, self.ctx.seed)
                with offload.writable(self.local_shard_of(buffer, param, layout)) as values:
                    if buffer in self.views:
                        values.copy_(first.view(values.shape))
                    else:
                        values.view(-1)[: index.numel()].copy_(first)

    def _element_indices(self, param: Dict, layout: Dict) -> torch.Tensor:
        """Global index within the parameter of every local element, without padding."""
        starts, sizes, full_sizes = self.ctx.mesh.shard_box(param["dims"], layout, self.ctx.rank)
        begin, end = self.ctx.mesh.flat_range(sizes, layout, self.ctx.rank)
        return philox.grid(starts, sizes, full_sizes, self.ctx.device).view(-1)[begin:end]

    def element_indices(self, name: str) -> torch.Tensor:
        """`_element_indices` by parameter name, for the stored layout; padding gets element 0."""
        param = next(param for param in self.params if param["name"] == name)
        index = self._element_indices(param, param["kept"])
        room = self.local_shard_of(param["frames"][str(self.pp)]["param"], param, param["kept"]).numel()
        return torch.nn.functional.pad(index, (0, room - index.numel()))

    def values(self, buffer: int) -> offload.Storage:
        """The single tensor of a persistent buffer."""
        return self.views[buffer] if buffer in self.views else self.buffers[buffer][0]

    def local_shard_of(self, buffer: int, param: Dict, layout: Dict) -> offload.Storage:
        """Persistent storage of a parameter on this rank: the full tensor, or a view of the rank's shard in it."""
        values = self.values(buffer)
        inside = param.get("keptInside") and buffer == param["frames"][str(self.pp)]["param"]
        return self.ctx.local_shard(values, *layout["flat"]) if inside else values

    def stored(self, param: Dict) -> List[Tuple[int, Dict]]:
        """Buffers of the parameter's values on this rank, and their layouts: its own, and that of its FP32 master weights."""
        buffers = param["frames"].get(str(self.pp))
        if buffers is None:
            return []
        master = [(buffers["master"], param["state"])] if "master" in buffers else []
        return [(buffers["param"], param["kept"]), *master]

    def _ema(self, param: Dict):
        """The buffer of a parameter's EMA, which starts as the parameter, and its layout."""
        buffer = param["frames"].get(str(self.pp), {}).get("states", {}).get("ema")
        return [] if buffer is None else [(buffer, param["state"])]

    def swap_ema(self) -> List[Tuple[offload.Storage, torch.Tensor]]:
        """Swaps the EMA in for the parameters. Returns the parameters, for `restore_weights`."""
        before = []
        for param in self.params:
            for buffer, _ in self._ema(param):
                [(own, layout), *_] = self.stored(param)
                ema = offload.materialize(self.values(buffer))
                with offload.writable(self.local_shard_of(own, param, layout)) as values:
                    before.append((self.local_shard_of(own, param, layout), values.clone()))
                    values.copy_(ema.view_as(values))
        return before

    @staticmethod
    def restore_weights(before: List[Tuple[offload.Storage, torch.Tensor]]) -> None:
        for own, values in before:
            with offload.writable(own) as changed:
                changed.copy_(values)

    def parameter(self, param: Dict) -> Optional[torch.Tensor]:
        """This rank's shard of a parameter, if any."""
        stored = self.stored(param)
        return offload.materialize(self.local_shard_of(stored[0][0], param, stored[0][1])) if stored else None

    def master(self, param: Dict) -> Optional[torch.Tensor]:
        """The same in the precision of the optimizer (the f32 master weights)."""
        stored = self.stored(param)
        return offload.materialize(self.local_shard_of(stored[-1][0], param, stored[-1][1])) if stored else None

    def result(self, name: str) -> Optional[torch.Tensor]:
        """A reduced result of the step (loss, count, normSquared, terms), on ranks that have it."""
        buffer = self.results.get(name, {}).get(str(self.pp))
        return None if buffer is None else self.buffers[buffer][0]

    def scalars(self) -> Dict[str, float]:
        """Scalars that persist across steps. Synchronizes with the device once."""
        stored = torch.stack([self.buffers[buffer][0] for buffer in self.scalar_buffers.values()])
        return dict(zip(self.scalar_buffers, stored.tolist()))

    def set_scalars(self, scalars: Dict[str, float]) -> None:
        for name, buffer in self.scalar_buffers.items():
            self.buffers[buffer][0].fill_(scalars[name])

    def run(self, step: int, step_scalars: Dict[str, float]) -> None:
        self.ctx.start(step, step_scalars)
        self.run_schedule()

    def run_schedule(self, until: Optional[int] = None) -> None:
        """Runs the schedule, or the part before a given step. Expert capacity is checked before the first parameter update."""
        for i, self.at in enumerate(self.steps[:until]):
            if i == self.capacity_check_at:
                self.ctx.require_capacity()
            if self.around is None:
                getattr(self, "_" + self.at[0])(*self.at[1:])
            else:
                self.around(i, lambda: getattr(self, "_" + self.at[0])(*self.at[1:]))
            self.done += 1
        if self.capacity_check_at == len(self.steps):
            self.ctx.require_capacity()
        self.at = ["end of the step"]

    def poison(self) -> bool:
        """Fault injection: writes a NaN into the results of the last call. False: it had no floating-point results."""
        kind, name, *rest = self.at
        if kind not in ("call", "start"):
            return False
        bind = rest[2] if kind == "call" else rest[0]
        made = [self.buffers[bind[role]].get(offset) for role, offset in self.functions[name].outputs]
        numbers = [x for x in made if isinstance(x, torch.Tensor) and x.is_floating_point() and x.numel() > 0]
        for x in numbers[:1]:
            x[(0,) * x.dim()] = float("nan")
        return bool(numbers)

    def free_gradients(self) -> None:
        """Clears gradients as every step does first, so that those of the last step are freed early."""
        for kind, name, *rest in self.steps:
            if kind == "each" and name in self.begins:
                self._each(name, *rest)

    def _alloc(self, buffer: int) -> None:
        self.buffers[buffer] = {}

    def _free(self, buffer: int) -> None:
        self.buffers[buffer] = {}

    def _call(self, name: str, block: str, microbatch: int, bind: List[int]) -> None:
        fn, buffers = self.functions[name], self.buffers
        self.ctx.block, self.ctx.microbatch, self.ctx.param_names = block, max(0, microbatch), [block]
        operands = [buffers[bind[role]][offset] for role, offset in fn.inputs]
        results = fn.function(self.ctx, *operands)
        for (role, offset), value in zip(fn.outputs, results):
            self._store(bind[role], offset, value)

    def _store(self, buffer: int, offset: int, value) -> None:
        capacity = self.padded.get((buffer, offset))
        if capacity is not None and isinstance(value, torch.Tensor):
            value = flat_buffers.padded(value, capacity)
        self.buffers[buffer][offset] = value

    def _start(self, name: str, bind: List[int], tag: str) -> None:
        """A call that starts a collective; the wait for its tag completes it."""
        fn, buffers = self.functions[name], self.buffers
        operands = [buffers[bind[role]][offset] for role, offset in fn.inputs]
        self.pending[tag] = buckets = fn.function(self.ctx, *operands)
        tensors = [tensor for bucket in buckets for tensor in bucket.tensors]
        for (role, offset), tensor in zip(fn.outputs, tensors):
            buffers[bind[role]][offset] = tensor

    def _each(self, name: str, params: List[str], binds: List[List[int]]) -> None:
        """A call for many parameters (foreach)."""
        fn, buffers = self.functions[name], self.buffers
        self.ctx.block, self.ctx.microbatch, self.ctx.param_names = "", 0, params

        def at(role: int, offset: int):
            of = self._view if fn.separate else lambda buffer, offset: buffers[buffer][offset]
            stored = [of(bind[role], offset) for bind in (binds if role in fn.list_slots else binds[:1])]
            return stored if role in fn.list_slots else stored[0]

        results = fn.function(self.ctx, *[at(role, offset) for role, offset in fn.inputs])
        for (role, offset), values in zip(fn.outputs, results):
            for bind, value in zip(binds, values if role in fn.list_slots else [values]):
                # Views into a shared buffer were updated in place.
                if not (fn.separate and bind[role] in self.views):
                    self._store(bind[role], offset, value)

    def _view(self, buffer: int, offset: int) -> torch.Tensor:
        """The tensor of a buffer, as a view if the buffer is shared."""
        if buffer in self.fused_gradients:
            first, widths, place = self.fused_gradients[buffer]
            return einsum.split(self.buffers[first][0], *widths)[place]
        return self.views[buffer] if buffer in self.views else self.buffers[buffer][offset]

    def _send(self, buffer: int, peer: int, tag: str, places) -> None:
        process_group, other = self.p2p_groups[(self.pp, peer)], self.ctx.mesh.peer(self.ctx.rank, peer)
        self.pending[tag] = [
            comm.send(self.buffers[buffer][offset], other, process_group, f"the recv {tag} of rank {other}")
            for offset, *_ in places
        ]

    def _recv(self, buffer: int, peer: int, tag: str, places) -> None:
        process_group, other = self.p2p_groups[(peer, self.pp)], self.ctx.mesh.peer(self.ctx.rank, peer)
        self.pending[tag] = []
        for offset, sizes, dtype, *_ in places:
            room = torch.empty(sizes, dtype=self.ctx.dtypes[dtype], device=self.ctx.device)
            self.buffers[buffer][offset] = room
            self.pending[tag].append(comm.receive(room, other, process_group, f"the send {tag} of rank {other}"))

    def _wait(self, tag: str) -> None:
        for transfer in self.pending.pop(tag):
            self.ctx.wait(transfer)


def _initial_values(param: Dict, index: torch.Tensor, seed: int) -> torch.Tensor:
    init = param["init"]
    if init["kind"] == "normal":
        return (philox.normal(index, seed, param["name"]) * init["std"]).float()
    if init["kind"] == "uniform":
        return ((2 * philox.uniform(index, seed, param["name"]) - 1) * init["bound"]).float()
    return torch.full(index.shape, 1.0 if init["kind"] == "ones" else 0.0, device=index.device)


def _p2p_pairs(mesh, folder: str) -> List[Tuple[int, int]]:
    """All (sender, receiver) pairs of pipeline stages, in the same order on all ranks."""
    pairs = set()
    for pp in range(mesh.sizes.get("pp", 1)):
        with open(os.path.join(folder, f"stage{pp}.json")) as file:
            pairs |= {(pp, step[2]) for step in json.load(file)["steps"] if step[0] == "send"}
    return sorted(pairs)


def _load(path: str):
    spec = importlib.util.spec_from_file_location(f"stage_{abs(hash(path))}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _compiled(function: Callable, compiled: bool) -> Callable:
    return torch.compile(function, **COMPILE) if compiled else function
