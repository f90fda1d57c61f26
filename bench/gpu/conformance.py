"""
Emitted programs and the runtime's helpers on a GPU, against the reference; on a simulated GPU, or on CPUs, where there is none.
    python conformance.py FOLDER [--device cuda] [--part 1/3] [--family jobs] [--report FOLDER]
FOLDER is what conformance.mjs wrote. Every item is run by processes of its own kind; one that dies or hangs fails alone. Ends with a line
for each family, and not with 0 where something failed or was not run. README.md has the commands.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import time

import faults
from faults import FAULTS

HERE = os.path.dirname(os.path.abspath(__file__))
WAYS = ("written", "compiled", "recorded")


def items_of(folder, options):
    """Jobs of the list in each of the ways they are to be run, and helpers."""
    with open(os.path.join(folder, "list.json")) as file:
        listed = json.load(file)
    items = [
        {**job, "way": way, "name": f"{job['title']} ({way})"} for job in listed["jobs"] for way in job["ways"] if way in options.ways
    ]
    if options.device != "cpu":
        from helpers import HELPERS

        items += [{"family": "helpers", "name": name, "ranks": 1, "helper": name} for name in HELPERS]
    if options.device != "simulated" and os.path.exists(os.path.join(folder, "faults")):
        items += [{"family": "faults", "name": name, "ranks": 2, "fault": name} for name in FAULTS]
    chosen = [item for item in items if item["family"] in (options.family or [item["family"]]) and options.only in item["name"]]
    if options.names:
        with open(options.names) as file:
            names = set(file.read().split("\n"))
        chosen = [item for item in chosen if item["name"] in names]
    part, parts = (int(n) for n in options.part.split("/"))
    return listed, [{**item, "index": i} for i, item in enumerate(chosen) if i % parts == part - 1]


def why_not(item, device: str) -> str:
    """Why an item is not for this device; "" if it is."""
    if device == "cpu" and item.get("way") in ("compiled", "recorded"):
        return "needs a GPU, or a simulated one"
    return ""


def begin(folder, device: str, backend: str):
    """What all processes have in common, before they are copied from this one."""
    sys.path.insert(0, os.path.join(folder, "runtime-of-all"))
    if device == "simulated":
        import simulated

        simulated.start(backend)
        from runtime import context, gemm
        from simulated import compiler, libraries

        libraries.give_gemms(gemm)
        compiler.serve(context)
    import torch
    import torch._dynamo  # custom operations load it when first called: every copy would
    from runtime import attention, trainer  # noqa: F401

    torch.set_num_threads(1)


class Set:
    """Processes for so many ranks, that run items one after the other until one fails, hangs or dies."""

    def __init__(self, items, ranks: int, options, folder: str, results: str):
        self.items, self.results, self.options = items, results, options
        self.store = os.path.join(results, f"store-{ranks}-{items[0]['index']}")
        sys.stdout.flush()
        self.processes = [self._fork(rank, ranks, folder) for rank in range(ranks)]

    def _fork(self, rank: int, ranks: int, folder: str) -> int:
        pid = os.fork()
        if pid == 0:
            from ranks import work  # beside this file

            try:
                work(rank, ranks, self.items, self.store, folder, self.results, self.options.device)
                os._exit(0)
            except BaseException as error:  # noqa: B036  (whatever it is, it is told in the item's file)
                print(f"rank {rank}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr, flush=True)
                os._exit(1)
        return pid

    def wait(self):
        """The items that are left: those behind the one at which it ended."""
        left, seconds = list(self.items), time.monotonic()
        said = ""
        while self.processes and not said:
            time.sleep(0.05)
            done = [item for item in left if os.path.exists(path_of(self.results, item, "done"))]
            if done:
                seconds, left = time.monotonic(), [item for item in left if item not in done]
            said = self._reap()
            if time.monotonic() - seconds > self.options.seconds:
                said = f"it took longer than {self.options.seconds:g} s"
        self._end()
        left = [item for item in left if not os.path.exists(path_of(self.results, item, "done"))]
        if left:
            failed = path_of(self.results, left[0], "failed")
            if not os.path.exists(failed):
                with open(failed, "w") as file:
                    file.write(said or "its ranks ended before it did")
        return left[1:]

    def _reap(self) -> str:
        for pid in list(self.processes):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self.processes.remove(pid)
                code = os.waitstatus_to_exitcode(status)
                if code != 0:
                    time.sleep(0.5)  # the others have the time to say what they met
                    return f"a rank was killed by signal {-code}" if code < 0 else "a rank failed"
        return ""

    def _end(self) -> None:
        for pid in self.processes:
            os.kill(pid, 9)
            os.waitpid(pid, 0)


def path_of(results: str, item, kind: str) -> str:
    return os.path.join(results, f"{item['index']}.{kind}")


def run_all(items, options, folder: str, results: str) -> None:
    for item in [item for item in items if "fault" in item]:
        said = faults.run(item["fault"], os.path.join(folder, "faults"), options.device)
        with open(path_of(results, item, "failed" if said else "done"), "w") as file:
            file.write(said)
    items = [item for item in items if "fault" not in item]
    for ranks in sorted({item["ranks"] for item in items}):
        left = [item for item in items if item["ranks"] == ranks]
        while left:
            left = Set(left, ranks, options, folder, results).wait()


def judged(item, folder: str, results: str):
    """(passed, what is to be said of it)"""
    failed = path_of(results, item, "failed")
    if os.path.exists(failed):
        with open(failed) as file:
            return False, file.read().strip()
    if not os.path.exists(path_of(results, item, "done")):
        return False, "it was not run"
    if "way" not in item:
        return True, ""
    with open(path_of(results, item, "done")) as file:
        result = json.load(file)
    with open(os.path.join(folder, item["folder"], "expected.json")) as file:
        expected = json.load(file)
    distances = {precision: distance(item, precision, result[precision], expected[precision]) for precision in result}
    said = ", ".join(f"{precision} {worst:.1e} of {bound:.0e} ({what})" for precision, (worst, bound, what) in distances.items())
    return all(worst <= bound for worst, bound, _ in distances.values()), said


# Relative to a tensor's largest element, as in test/emit-conformance.test.ts; and to what training moved it.
BOUNDS = {"f64": 1e-10, "plan": 2e-5, "half": 2.0**-7}
MOVED = 0.2


def far(actual, wanted, least: float) -> float:
    if len(actual) != len(wanted):
        return math.inf
    largest = max([least, *(abs(x) for x in wanted)])
    return max([0.0, *(abs(a - b) / largest if math.isfinite(a) else math.inf for a, b in zip(actual, wanted))])


def distance(item, precision: str, result, expected):
    """How far it is at most, how far it may be, and what it is."""
    half = item["half"] and precision == "plan"
    bound = BOUNDS["half" if half else precision] * item.get("loose", 1)
    pairs = {name: [[record[name] for record in side["records"]] for side in (result, expected)] for name in ("loss", "gradientNorm")}
    pairs["heldOut"] = [[result["heldOut"]], [expected["heldOut"]]]
    if not half:
        pairs.update({name: [result["parameters"][name], values] for name, values in expected["parameters"].items()})
    found = [(far(*pair, item["lr"]), bound, name) for name, pair in pairs.items()]
    if half and item["moves"]:
        found += [
            (off(result["parameters"][name], values, expected["start"][name]) * bound / MOVED, bound, f"{name} by what it moved")
            for name, values in expected["parameters"].items()
        ]
    return max(found)


def off(actual, wanted, start) -> float:
    """What it is off, of what it moved; rounding to bf16 moves it too."""
    length = lambda pairs: math.sqrt(sum((a - b) ** 2 for a, b in pairs))  # noqa: E731
    apart = length(zip(actual, wanted))
    rounding = 2.0**-8 * length(zip(wanted, [0.0] * len(wanted)))
    return math.inf if not math.isfinite(apart) else apart / (length(zip(wanted, start)) + rounding + 1e-12)


def machine(options, listed):
    import torch

    asked = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader", "--id=0"]
    try:
        gpu, driver = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip().split(", ")
    except (OSError, ValueError, subprocess.SubprocessError):
        gpu, driver = {"simulated": "simulated", "cpu": "none (CPU)"}.get(options.device, "?"), "none"
    now = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    about = {"date": now, "gpu": gpu, "driver": driver, "torch": torch.__version__, "commit": listed["commit"]}
    return {**about, "device": options.device, "part": options.part}


def closing(planned, rows, skipped) -> str:
    reasons = "; ".join(sorted({why for _, why in skipped}))
    passed = sum(row["passed"] for row in rows)
    return f"planned {planned}, run {len(rows)}, passed {passed}, skipped {len(skipped)}" + (f" ({reasons})" if reasons else "")


def write_report(folder: str, about, families, rows) -> None:
    """report-DATE.md and .json."""
    os.makedirs(folder, exist_ok=True)
    name = f"{about['date'][:10]}-{about['device']}" + ("" if about["part"] == "1/1" else f"-{about['part'].replace('/', '-of-')}")
    with open(os.path.join(folder, f"{name}.json"), "w") as file:
        json.dump({**about, "families": families, "rows": rows}, file, indent=1)
    lines = [f"# Emitted programs on {about['gpu']}, {about['date'][:10]}", ""]
    lines += [f"Driver {about['driver']}, PyTorch {about['torch']}, commit {about['commit']}, part {about['part']}.", ""]
    lines += ["| family | result |", "|---|---|", *[f"| {family} | {text} |" for family, text in families.items()], ""]
    lines += [f"- `{row['name']}` failed: {row['said'].splitlines()[-1][:300]}" for row in rows if not row["passed"]] or ["Nothing failed."]
    with open(os.path.join(folder, f"{name}.md"), "w") as file:
        file.write("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--device", choices=("cuda", "simulated", "cpu"), default="cuda")
    parser.add_argument("--part", default="1/1", help="of so many parts the first, the second, ...")
    parser.add_argument("--family", nargs="*", help="jobs, optimizers, recorded, helpers, faults")
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS))
    parser.add_argument("--only", default="", help="items with this in their name")
    parser.add_argument("--names", help="a file with a name on each line: those items alone")
    parser.add_argument("--seconds", type=float, default=120, help="that one item may take")
    parser.add_argument("--backend", default="aot_eager", help="of torch.compile on the simulated GPU")
    parser.add_argument("--report", help="a folder for report-DATE.md and .json")
    parser.add_argument("--helpers", action="store_true", help="print the names of helpers, and no more")
    options = parser.parse_args()
    sys.path.insert(0, HERE)
    if options.helpers:
        from helpers import HELPERS

        print("\n".join(HELPERS))
        sys.exit()
    if options.folder is None:
        parser.error("which folder?")
    folder = os.path.abspath(options.folder)
    listed, items = items_of(folder, options)
    skipped = [(item, why_not(item, options.device)) for item in items if why_not(item, options.device)]
    to_run = [item for item in items if not why_not(item, options.device)]
    started = time.perf_counter()
    import tempfile

    with tempfile.TemporaryDirectory() as results:
        begin(folder, options.device, options.backend)
        run_all(to_run, options, folder, results)
        rows = []
        for item in to_run:
            passed, said = judged(item, folder, results)
            rows.append({key: item[key] for key in ("family", "name", "ranks")} | {"passed": passed, "said": said})
            indented = said.replace("\n", "\n    ")
            print(f"{'ok    ' if passed else 'NOT ok'} {item['ranks']} ranks, {item['name']}: {indented}", flush=True)
    families = {}
    for family in dict.fromkeys(item["family"] for item in items):
        mine = [[x for x in every if of(x) == family] for every, of in (
            (items, lambda x: x["family"]), (rows, lambda x: x["family"]), (skipped, lambda x: x[0]["family"])
        )]
        families[family] = closing(len(mine[0]), mine[1], mine[2])
    if options.report:
        write_report(options.report, machine(options, listed), families, rows)
    print(f"{time.perf_counter() - started:.0f} s")
    for family, text in families.items():
        print(f"{family}: {text}")
    sys.exit(not rows or len(rows) + len(skipped) < len(items) or not all(row["passed"] for row in rows))


if __name__ == "__main__":
    main()
