"""
Runs many generated programs, a case each, in processes forked from this one: torch is imported once.
    emit_many.py list.json
list.json: [{"folder", "title", "ranks", "steps", "runs": [[precision, compiled], ...]}]. Each folder gets result.json, by run
("f64", "plan compiled", ...): losses per step, the validation loss after the last, and full parameters reassembled from the
ranks' shards; or failure.txt. Every case has processes of its own: one that dies or hangs fails alone. The first folder has the
runtime that all of them use. bench/gpu/conformance.py runs the same cases on a GPU.
"""
import ast
import faulthandler
import gc
import glob
import hashlib
import json
import multiprocessing
import os
import re
import signal
import sys
import time
import traceback

import torch
import torch._dynamo  # custom operations load it when first called: every fork would
import torch.distributed as dist

FOLDER = os.path.dirname(sys.argv[1])
# Seconds for a case; a rank that is still running then, or waits for a dead one, gets a few to write its stack.
CASE_SECONDS, GRACE_SECONDS = int(os.environ.get("CASE_SECONDS", 240)), 5
CASES_AT_ONCE = os.cpu_count() or 1

with open(sys.argv[1]) as file:
    jobs = [{**job, "folder": os.path.join(FOLDER, job["folder"])} for job in json.load(file)]
device = torch.device("cpu")
sys.path[:0] = [jobs[0]["folder"], os.path.join(os.path.dirname(__file__), "..", "bench", "gpu")]

from assembled import assembled  # noqa: E402
from runtime import losses  # noqa: E402
from runtime.stage import COMPILED_PHASES  # noqa: E402
from runtime.trainer import Trainer  # noqa: E402

MAX_CHUNK_BYTES = losses.MAX_CHUNK_BYTES
# Graphs that torch.compile may make of a function of a stage, and of an update, before a case fails.
MOST_VARIANTS, MOST_SHAPES = 8, 64


class Compiled:
    """
    What torch.compile returns on a CPU here: functions that `to_compile` chose are compiled by the first rank that calls them, others
    run as written. Traced, made functional and decomposed as inductor has it, then run op by op: C++ for every kernel would take hours.
    """

    compile = torch.compile
    folder = os.path.join(FOLDER, "compiled")
    # Functions of stage files: (file, name).
    chosen = set()

    def __init__(self, function, dynamic=None, options=None):
        self.function, self.dynamic, self.taken = function, dynamic, None

    def __call__(self, *operands, **named):
        if self.taken is None:
            self.taken = self.compiled() if self.is_first([*operands, *named.items()]) else self.function
        # An update is compiled for each shape, a function of the stage only for what it takes: another microbatch is nothing new.
        with torch._dynamo.config.patch(recompile_limit=MOST_SHAPES if self.is_update() else MOST_VARIANTS):
            return self.taken(*operands, **named)

    def compiled(self):
        return Compiled.compile(self.function, backend="aot_eager_decomp_partition", dynamic=self.dynamic)

    def is_first(self, operands):
        """An update kernel is told apart by its operands."""
        code = self.function.__code__
        key = code.co_filename, code.co_name
        if self.is_update():
            key = *key, [kind_of(x) for x in operands]
        elif key not in Compiled.chosen:
            return False
        return taken(os.path.join(self.folder, hashlib.sha256(repr(key).encode()).hexdigest()))

    def is_update(self):
        return not self.function.__module__.startswith("stage_")


def to_compile():
    """Few and short functions with every kind of statement among them, in every precision: a greedy set cover."""
    kinds = {}
    for job in jobs:
        if any(compiled for _, compiled in job["runs"]):
            kinds.update(kinds_in(job))
    missing, chosen = set().union(*kinds.values()), set()
    while missing:
        # What a function takes to compile before its first statement is what ten of them take.
        best = max(kinds, key=lambda function: len(kinds[function] & missing) / (10 + len(kinds[function])))
        chosen.add(best)
        missing -= kinds[best]
    return chosen


def kinds_in(job):
    """The kinds of statements of each function of a job that would be compiled."""
    precision = next(precision for precision, compiled in job["runs"] if compiled)
    with open(os.path.join(job["folder"], "job.json")) as file:
        plan = json.load(file)["plan"]
    stored = (plan["precision"] == "f32", plan["precision"] == "pure-bf16", plan.get("gradients")) if precision == "plan" else "f64"
    stored = stored, plan["microbatches"] > MOST_VARIANTS
    kinds = {}
    for path in glob.glob(os.path.join(job["folder"], "stage*.py")):
        with open(path) as file, open(path[:-2] + "json") as schedule:
            phases = {name: phase for name, phase, *_ in json.load(schedule)["functions"]}
            for function in ast.parse(file.read()).body:
                if isinstance(function, ast.FunctionDef) and phases.get(function.name) in COMPILED_PHASES:
                    kinds[path, function.name] = {(stored, kind) for kind in statements(function)}
    return kinds


def statements(function):
    """Those of a function, with the names of its variables, of groups and dims, and all numbers alike."""
    return {ast.dump(Alike().visit(statement)) for statement in function.body[1:] if not isinstance(statement, ast.Return)}


class Alike(ast.NodeTransformer):
    def visit_Name(self, node):
        return node if node.id in ("ops", "ctx") else ast.Name("_", node.ctx)

    def visit_Constant(self, node):
        if isinstance(node.value, str):
            letters = {}
            return ast.Constant(re.sub(r"\w+", lambda dim: letters.setdefault(dim.group(), chr(ord("a") + len(letters))), node.value))
        return ast.Constant(0) if type(node.value) in (int, float) else node


def taken(file):
    """Whether this process is the first to make it."""
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def kind_of(x):
    if isinstance(x, torch.Tensor):
        return x.dtype, x.dim()
    return [kind_of(each) for each in x] if isinstance(x, (list, tuple)) else type(x)


def load_compiler():
    """What the first call of a compiled function imports takes seconds, in every fork."""
    from torch._inductor import config  # noqa: F401

    Compiled.compile(lambda x: torch.nn.functional.gelu(x) @ x, backend="aot_eager_decomp_partition")(torch.ones(2, 2))


if any(compiled for job in jobs for _, compiled in job["runs"]):
    os.makedirs(Compiled.folder, exist_ok=True)
    Compiled.chosen = to_compile()
    load_compiler()
    # Beyond the limit a function would run as written.
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    torch.compile = Compiled


def run(job, precision, compiled, process_groups):
    trainer = Trainer(job["folder"], dist.get_rank(), device, precision, compiled=compiled, process_groups=process_groups)
    records = []
    for step in range(job["steps"]):
        # Alternately all logits at once, and a few at a time.
        losses.MAX_CHUNK_BYTES = MAX_CHUNK_BYTES if step % 2 == 0 else 512
        records.append(trainer.step(step))
    reports = [None] * dist.get_world_size()
    validation = trainer.evaluate() if "evaluation" in trainer.settings else None
    dist.all_gather_object(reports, (records, validation))
    reported, validation = reports[trainer.program["reporter"]]
    return {"records": reported, "heldOut": validation, "parameters": assembled(trainer)}


def work(job, rank):
    """One rank of a case."""
    log = open(os.path.join(job["folder"], f"failed-{rank}.txt"), "w")
    faulthandler.register(signal.SIGTERM, log, chain=True)  # a rank that is ended writes its stack
    try:
        torch.set_num_threads(1)
        store = dist.FileStore(os.path.join(job["folder"], "store"), job["ranks"])
        dist.init_process_group("gloo", store=store, rank=rank, world_size=job["ranks"])
        process_groups, result = {}, {}
        for how in job["runs"]:
            result[name_of(*how)] = run(job, *how, process_groups)
            if rank == 0:
                with open(os.path.join(job["folder"], "result.json"), "w") as file:
                    file.write(json.dumps(result))
    except BaseException:
        traceback.print_exc(file=log)
        log.flush()
        os._exit(1)
    os._exit(0)  # nothing of this process outlives it


def name_of(precision, compiled):
    return f"{precision} compiled" if compiled else precision


class Case:
    """A job under way."""

    def __init__(self, job):
        self.job, self.started = job, time.monotonic()
        for name in ("store", "failure.txt", "result.json"):  # of an earlier run
            if os.path.exists(os.path.join(job["folder"], name)):
                os.remove(os.path.join(job["folder"], name))
        self.ranks = [multiprocessing.get_context("fork").Process(target=work, args=(job, rank)) for rank in range(job["ranks"])]
        for process in self.ranks:
            process.start()

    def ended(self):
        """Whether nothing of it runs any more. A rank that fails, or the clock, ends the others."""
        codes = [process.exitcode for process in self.ranks]
        failed = [rank for rank, code in enumerate(codes) if code]
        seconds = time.monotonic() - self.started
        if not failed and seconds < CASE_SECONDS:
            return all(code is not None for code in codes)
        self.end()
        if failed:
            self.say(f"rank {failed[0]} ended with exit code {codes[failed[0]]}", failed[0])
        else:
            hung = [rank for rank, code in enumerate(codes) if code is None]
            self.say(f"ranks {hung} were still running after {CASE_SECONDS} s", hung[0])
        return True

    def end(self):
        for process in self.ranks:
            process.terminate()
        deadline = time.monotonic() + GRACE_SECONDS
        for process in self.ranks:
            process.join(max(0, deadline - time.monotonic()))
            process.kill()
            process.join()

    def say(self, why, rank):
        with open(os.path.join(self.job["folder"], f"failed-{rank}.txt")) as file:
            told = file.read()
        with open(os.path.join(self.job["folder"], "failure.txt"), "w") as file:
            file.write(f"{why}\n{told}")


def main():
    gc.freeze()  # forks need not traverse what torch has made
    # Cases of many ranks first: the last to run are short.
    waiting, running = sorted(jobs, key=lambda job: -job["ranks"]), []
    while waiting or running:
        while waiting and len(running) < CASES_AT_ONCE:
            running.append(Case(waiting.pop(0)))
        time.sleep(0.005)
        for case in [case for case in running if case.ended()]:
            running.remove(case)
    sys.exit(any(os.path.exists(os.path.join(job["folder"], "failure.txt")) for job in jobs))


main()
