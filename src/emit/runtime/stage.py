"""
Executes the schedule of one pipeline stage (stageN.json): allocates and frees buffers, calls the functions of stageN.py with their
tensors, starts sends and receives and waits for them. Only this file reads the schedule.
"""
import importlib.util
import json
import os
from typing import Callable, Dict, List, Optional, Tuple

import torch

from . import comm, contract, counter, grouped, lines, optimizer, products, spaces
from .here import Here, keep_out_of_compiled_code

# The tensors of a buffer, by offset.
Frame = Dict[int, torch.Tensor]

COMPILED_PHASES = {"F", "I", "W", "B", "C"}
# Options of torch.compile.
COMPILE: Dict = {"dynamic": False}


class Segment:
    def __init__(self, function: Callable, takes, gives, lists, apart=False, plain: Optional[Callable] = None):
        # The function that is called (compiled or not), and the plain one.
        self.function, self.plain = function, plain or function
        # Whether it takes parameters that share one buffer separately.
        self.apart = apart
        # Arguments that are lists with one tensor per parameter (foreach).
        self.lists = set(lists)
        self.takes: List[Tuple[int, int]] = [tuple(slot) for slot in takes]
        self.gives: List[Tuple[int, int]] = [tuple(slot) for slot in gives]


class Stage:
    def __init__(
        self, folder: str, program: Dict, here: Here, compiled=False, trained: "Optional[Stage]" = None, goes_on=False
    ):
        """
        `trained`: the stage whose parameters this one uses, if it does not train its own. With `goes_on` it replaces that stage and
        takes over all its persistent state.
        """
        self.here = here
        self.pp = here.coordinates.get("pp", 0)
        with open(os.path.join(folder, f"stage{self.pp}.json")) as file:
            schedule = json.load(file)
        self.steps = schedule["steps"]
        # Buffers that are not on the device have further fields: memory tier, category and name.
        elsewhere = {i: (frame[3], frame[1], frame[0]) for i, frame in enumerate(schedule["frames"]) if frame[3:]}
        self.on_host = bool(elsewhere)
        if compiled:
            keep_out_of_compiled_code()
        if trained is None:
            grouped.start(here.device)
        if compiled and trained is None:
            optimizer.compile_updates(COMPILE, here.device, self.on_host)
            products.start(here.device)
        module = _load(os.path.join(folder, f"stage{self.pp}.py"))
        self.begins = {name for name, phase, *_ in schedule["segments"] if phase == "begin"}
        self.segments = {
            name: Segment(_ready(getattr(module, name), compiled and phase in COMPILED_PHASES), *slots, plain=getattr(module, name))
            for name, phase, *slots in schedule["segments"]
        }
        self.phases = {name: phase for name, phase, *_ in schedule["segments"]}
        updates = {name for name, phase in self.phases.items() if phase == "update"}
        first = next((i for i, step in enumerate(self.steps) if len(step) > 1 and step[1] in updates), len(self.steps))
        self.first_update = first
        self.guarded_until = first if program.get("guarded") else None
        self.frames: List[Frame] = [{} for _ in schedule["frames"]]
        self.params, self.results = program["params"], program["results"]
        if trained is None or goes_on:
            here.elements = self.elements
        # Buffers of scalars that persist across steps, equal on all ranks.
        self.scalar_frames = {name: scalar["frames"][str(self.pp)] for name, scalar in program["scalars"].items()}
        self.starts = {name: scalar["start"] for name, scalar in program["scalars"].items()}
        joined = {frame for frames, _ in schedule.get("beside", []) for frame in frames}
        shared = {} if trained is None else self._shared(trained, joined)
        if goes_on:
            shared.update(self._kept(trained))
        for frame, places in schedule["resident"]:
            if frame in shared:
                self.frames[frame] = shared[frame]
            else:
                self.frames[frame] = {
                    offset: here.zeros(sizes, dtype, *(room or [0]), *elsewhere.get(frame, ())) for offset, sizes, dtype, *room in places
                }
        # Tensors that share the buffer of the first, as separate views.
        self.views: Dict[int, torch.Tensor] = {}
        for frames, widths in schedule.get("beside", []):
            parts = contract.apart(self.frames[frames[0]][0], *widths)
            self.views.update(zip(frames, parts))
        # Gradients in a shared buffer that some call reads individually: the first frame, all widths, and the index of this one.
        self.sides = {frame: (frames[0], widths, i) for frames, widths in schedule.get("apart", []) for i, frame in enumerate(frames)}
        # Results whose own shard is read or written in place need room for padded shards.
        self.padded = {(frame, offset): room for frame, offset, room in schedule.get("padded", [])}
        self.messages: Dict[str, comm.Pending] = {}
        self.channels = here.groups.channels(here.mesh, here.rank, _pairs(here.mesh, folder))
        # A hook around every call of the step: gets its index and the call.
        self.around: Optional[Callable[[int, Callable[[], None]], None]] = None
        # The current position, for hang reports.
        self.at: List = ["start"]
        self.done = 0

    def _shared(self, trained: "Stage", joined) -> Dict[int, Frame]:
        """By frame of this stage: the frame of `trained` with the same parameter; its own view, if it is not joined with others here."""
        pp = str(self.pp)
        other = {param["name"]: param["frames"] for param in trained.params}
        mine = [param for param in self.params if pp in param["frames"]]
        pairs = [(param["frames"][pp]["param"], other[param["name"]][pp]["param"]) for param in mine]
        return {
            frame: {0: trained.views[of]} if of in trained.views and frame not in joined else trained.frames[of]
            for frame, of in pairs
        }

    def _kept(self, before: "Stage") -> Dict[int, Frame]:
        """By frame of this stage: the frame of `before` with the same optimizer state, master weights or persistent scalar."""
        pp = str(self.pp)
        other = {param["name"]: param["frames"] for param in before.params}
        pairs = [(frame, before.scalar_frames[name]) for name, frame in self.scalar_frames.items()]
        for param in self.params:
            mine, others = param["frames"].get(pp), other[param["name"]].get(pp)
            if mine is not None:
                pairs += [(frame, others["states"][state]) for state, frame in mine["states"].items()]
                pairs += [(mine["master"], others["master"])] if "master" in mine else []
        return {frame: before.frames[of] for frame, of in pairs}

    def initialise(self) -> None:
        """Initializes weights as the engine does, each rank its own shard."""
        self.set_scalars(self.starts)
        for param in self.params:
            for frame, layout in [*self.held(param), *self._averaged(param)]:
                index = self._elements(param, layout)
                first = _initial(param, index, self.here.seed)
                with spaces.changing(self.own_part(frame, param, layout)) as values:
                    if frame in self.views:
                        values.copy_(first.view(values.shape))
                    else:
                        values.view(-1)[: index.numel()].copy_(first)

    def _elements(self, param: Dict, layout: Dict) -> torch.Tensor:
        """Global index within the parameter of every local element, without padding."""
        starts, sizes, wholes = self.here.mesh.part(param["dims"], layout, self.here.rank)
        begin, end = self.here.mesh.cut(sizes, layout, self.here.rank)
        return counter.grid(starts, sizes, wholes, self.here.device).view(-1)[begin:end]

    def elements(self, name: str) -> torch.Tensor:
        """`_elements` by parameter name, for the stored layout; padding gets element 0."""
        param = next(param for param in self.params if param["name"] == name)
        index = self._elements(param, param["kept"])
        room = self.own_part(param["frames"][str(self.pp)]["param"], param, param["kept"]).numel()
        return torch.nn.functional.pad(index, (0, room - index.numel()))

    def values(self, frame: int) -> spaces.Held:
        """The single tensor of a persistent buffer."""
        return self.views[frame] if frame in self.views else self.frames[frame][0]

    def own_part(self, frame: int, param: Dict, layout: Dict) -> spaces.Held:
        """Persistent storage of a parameter's frame on this rank: the full tensor, or a view of the rank's shard in it."""
        values = self.values(frame)
        inside = param.get("keptInside") and frame == param["frames"][str(self.pp)]["param"]
        return self.here.own(values, *layout["flat"]) if inside else values

    def held(self, param: Dict):
        """Frames that hold the parameter's values on this rank, and their layouts: its own, and that of its FP32 master weights."""
        frames = param["frames"].get(str(self.pp))
        if frames is None:
            return []
        master = [(frames["master"], param["state"])] if "master" in frames else []
        return [(frames["param"], param["kept"]), *master]

    def _averaged(self, param: Dict):
        """The buffer of a parameter's EMA, which starts as the parameter, and its layout."""
        frame = param["frames"].get(str(self.pp), {}).get("states", {}).get("ema")
        return [] if frame is None else [(frame, param["state"])]

    def swap_averages(self) -> List[Tuple[spaces.Held, torch.Tensor]]:
        """Swaps the EMA in for the parameters. Returns the parameters, for `put_back`."""
        before = []
        for param in self.params:
            for frame, _ in self._averaged(param):
                [(own, layout), *_] = self.held(param)
                average = spaces.in_memory(self.values(frame))
                with spaces.changing(self.own_part(own, param, layout)) as values:
                    before.append((self.own_part(own, param, layout), values.clone()))
                    values.copy_(average.view_as(values))
        return before

    @staticmethod
    def put_back(before: List[Tuple[spaces.Held, torch.Tensor]]) -> None:
        for own, values in before:
            with spaces.changing(own) as changed:
                changed.copy_(values)

    def parameter(self, param: Dict):
        """This rank's shard of a parameter, if any."""
        held = self.held(param)
        return spaces.in_memory(self.own_part(held[0][0], param, held[0][1])) if held else None

    def master(self, param: Dict):
        """The same in the precision of the optimizer (the f32 master weights)."""
        held = self.held(param)
        return spaces.in_memory(self.own_part(held[-1][0], param, held[-1][1])) if held else None

    def result(self, name: str):
        """A reduced result of the step (loss, count, normSquared, terms), on ranks that have it."""
        frame = self.results.get(name, {}).get(str(self.pp))
        return None if frame is None else self.frames[frame][0]

    def scalars(self) -> Dict[str, float]:
        """Scalars that persist across steps. Synchronizes with the device once."""
        held = torch.stack([self.frames[frame][0] for frame in self.scalar_frames.values()])
        return dict(zip(self.scalar_frames, held.tolist()))

    def set_scalars(self, scalars: Dict[str, float]) -> None:
        for name, frame in self.scalar_frames.items():
            self.frames[frame][0].fill_(scalars[name])

    def run(self, step: int, told: Dict[str, float]) -> None:
        self.here.start(step, told)
        self.play()

    def play(self, until: Optional[int] = None) -> None:
        """Runs the schedule, or the part before a given step. Expert capacity is checked before the first parameter update."""
        for i, self.at in enumerate(self.steps[:until]):
            if i == self.guarded_until:
                self.here.require_room()
            if self.around is None:
                getattr(self, "_" + self.at[0])(*self.at[1:])
            else:
                self.around(i, lambda: getattr(self, "_" + self.at[0])(*self.at[1:]))
            self.done += 1
        if self.guarded_until == len(self.steps):
            self.here.require_room()
        self.at = ["end of the step"]

    def poison(self) -> bool:
        """Fault injection: writes a NaN into the results of the last call. False: it had no floating-point results."""
        kind, name, *rest = self.at
        if kind not in ("call", "start"):
            return False
        bind = rest[2] if kind == "call" else rest[0]
        made = [self.frames[bind[role]].get(offset) for role, offset in self.segments[name].gives]
        numbers = [x for x in made if isinstance(x, torch.Tensor) and x.is_floating_point() and x.numel() > 0]
        for x in numbers[:1]:
            x[(0,) * x.dim()] = float("nan")
        return bool(numbers)

    def forget_gradients(self) -> None:
        """Clears gradients as every step does first, so that those of the last step are freed early."""
        for kind, name, *rest in self.steps:
            if kind == "each" and name in self.begins:
                self._each(name, *rest)

    def _alloc(self, frame: int) -> None:
        self.frames[frame] = {}

    def _free(self, frame: int) -> None:
        self.frames[frame] = {}

    def _call(self, name: str, block: str, microbatch: int, bind: List[int]) -> None:
        segment, frames = self.segments[name], self.frames
        self.here.block, self.here.microbatch, self.here.whose = block, max(0, microbatch), [block]
        taken = [frames[bind[role]][offset] for role, offset in segment.takes]
        given = segment.function(self.here, *taken)
        for (role, offset), value in zip(segment.gives, given):
            self._store(bind[role], offset, value)

    def _store(self, frame: int, offset: int, value) -> None:
        room = self.padded.get((frame, offset)) if self.padded else None
        is_padded = room is not None and isinstance(value, torch.Tensor)
        self.frames[frame][offset] = lines.padded(value, room) if is_padded else value

    def _start(self, name: str, bind: List[int], tag: str) -> None:
        """A call that starts a collective; the wait for its tag completes it."""
        segment, frames = self.segments[name], self.frames
        taken = [frames[bind[role]][offset] for role, offset in segment.takes]
        self.messages[tag] = flights = segment.function(self.here, *taken)
        tensors = [tensor for flight in flights for tensor in flight.tensors]
        for (role, offset), tensor in zip(segment.gives, tensors):
            frames[bind[role]][offset] = tensor

    def _each(self, name: str, params: List[str], binds: List[List[int]]) -> None:
        """A call for many parameters (foreach)."""
        segment, frames = self.segments[name], self.frames
        self.here.block, self.here.microbatch, self.here.whose = "", 0, params

        def at(role: int, offset: int):
            of = self._alone if segment.apart else lambda frame, offset: frames[frame][offset]
            held = [of(bind[role], offset) for bind in (binds if role in segment.lists else binds[:1])]
            return held if role in segment.lists else held[0]

        given = segment.function(self.here, *[at(role, offset) for role, offset in segment.takes])
        for (role, offset), values in zip(segment.gives, given):
            for bind, value in zip(binds, values if role in segment.lists else [values]):
                # Views into a shared buffer were updated in place.
                if not (segment.apart and bind[role] in self.views):
                    self._store(bind[role], offset, value)

    def _alone(self, frame: int, offset: int) -> torch.Tensor:
        """The tensor of a frame, as a view if the buffer is shared."""
        if frame in self.sides:
            first, widths, place = self.sides[frame]
            return contract.apart(self.frames[first][0], *widths)[place]
        return self.views[frame] if frame in self.views else self.frames[frame][offset]

    def _send(self, frame: int, peer: int, tag: str, places) -> None:
        channel, other = self.channels[(self.pp, peer)], self.here.mesh.peer(self.here.rank, peer)
        self.messages[tag] = [
            comm.send(self.frames[frame][offset], other, channel, f"the recv {tag} of rank {other}")
            for offset, *_ in places
        ]

    def _recv(self, frame: int, peer: int, tag: str, places) -> None:
        channel, other = self.channels[(peer, self.pp)], self.here.mesh.peer(self.here.rank, peer)
        self.messages[tag] = []
        for offset, sizes, dtype, *_ in places:
            room = torch.empty(sizes, dtype=self.here.dtypes[dtype], device=self.here.device)
            self.frames[frame][offset] = room
            self.messages[tag].append(comm.receive(room, other, channel, f"the send {tag} of rank {other}"))

    def _wait(self, tag: str) -> None:
        for message in self.messages.pop(tag):
            self.here.wait(message)


def _initial(param: Dict, index: torch.Tensor, seed: int) -> torch.Tensor:
    init = param["init"]
    if init["kind"] == "normal":
        return (counter.normal(index, seed, param["name"]) * init["std"]).float()
    if init["kind"] == "uniform":
        return ((2 * counter.uniform(index, seed, param["name"]) - 1) * init["bound"]).float()
    return torch.full(index.shape, 1.0 if init["kind"] == "ones" else 0.0, device=index.device)


def _pairs(mesh, folder: str) -> List[Tuple[int, int]]:
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


def _ready(function: Callable, compiled: bool) -> Callable:
    return torch.compile(function, **COMPILE) if compiled else function
