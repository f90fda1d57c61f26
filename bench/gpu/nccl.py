"""
Emitted programs of several ranks over NCCL on one GPU, against the reference: see README.md beside this file.
    python nccl.py FOLDER [--ranks 2 4 8] [--json FILE] [--no-faults]
"""
import argparse
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MANY = os.path.join(HERE, "..", "..", "test", "emit_many.py")
# Relative to a tensor's largest element, as in test/emit-conformance.test.ts.
BOUNDS = {"f64": 1e-10, "plan": 2e-5, "half": 2.0**-7}
# What Adam moves a parameter by at least.
STEP = 3e-3


def far(actual, wanted):
    if len(actual) != len(wanted):
        return math.inf
    largest = max([STEP, *(abs(x) for x in wanted)])
    return max([0.0, *(abs(a - b) / largest if math.isfinite(a) else math.inf for a, b in zip(actual, wanted))])


def distance(result, expected, parameters):
    pairs = [([record[name] for record in side["records"]] for side in (result, expected)) for name in ("loss", "gradientNorm")]
    pairs.append(([result["heldOut"]], [expected["heldOut"]]))
    if parameters:
        pairs += [(result["parameters"][name], values) for name, values in expected["parameters"].items()]
    return max(far(*pair) for pair in pairs)


def compared(folder, job):
    """By precision: how far the run is from the reference, and how far it may be."""
    at = lambda name: os.path.join(folder, job["folder"], name)  # noqa: E731
    if not os.path.exists(at("result.json")):
        told = [name for name in os.listdir(at("")) if name.startswith("failed-")]
        return {"failed": open(at(told[0])).read().strip().split("\n")[-1] if told else "it was not run"}
    result, expected = json.load(open(at("result.json"))), json.load(open(at("expected.json")))
    found = {}
    for precision in job["precisions"]:
        rounded = precision == "plan" and job["half"]
        bound = BOUNDS["half" if rounded else precision]
        found[precision] = (distance(result[precision], expected[precision], not rounded), bound)
    return found


def conformance(folder, ranks):
    with open(os.path.join(folder, "list.json")) as file:
        jobs = [job for job in json.load(file) if job["ranks"] in ranks]
    chosen = os.path.join(folder, "chosen.json")
    with open(chosen, "w") as file:
        json.dump(jobs, file)
    runtime = os.path.join(folder, "job0", "runtime")
    first = os.path.join(folder, jobs[0]["folder"], "runtime")
    if not os.path.exists(first):
        os.symlink(os.path.abspath(runtime), first)
    started = time.perf_counter()
    subprocess.run([sys.executable, MANY, chosen, "cuda"], check=False)
    rows = [{**job, "result": compared(folder, job)} for job in jobs]
    good = 0
    for row in rows:
        result = row["result"]
        fine = "failed" not in result and all(off <= bound for off, bound in result.values())
        good += fine
        said = result.get("failed") or ", ".join(f"{name} {off:.1e} (<= {bound:.0e})" for name, (off, bound) in result.items())
        print(f"{'ok    ' if fine else 'NOT ok'} {row['ranks']} ranks  {said}  {row['title']}", flush=True)
    print(f"{good} of {len(rows)} jobs equal the reference, {time.perf_counter() - started:.0f} s", flush=True)
    return rows, good == len(rows)


def rank_of(rank, world, port, arguments, folder, log):
    names = {
        "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        "NCCL_HOSTID": f"rank{rank}", "NCCL_SOCKET_IFNAME": "lo", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1",
        "NCCL_IB_DISABLE": "1",
    }
    command = [sys.executable, "train.py", "--no-compile", *arguments]
    return subprocess.Popen(command, cwd=folder, env={**os.environ, **names}, stdout=subprocess.PIPE, stderr=log, text=True)


def fault(folder, name, how, expected):
    """Two ranks train, something happens to the second, and the first must say where it was and whom it waits for."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    logs = [tempfile.TemporaryFile("w+") for _ in range(2)]
    first, second = (rank_of(rank, 2, port, ["--timeout", "10"], folder, logs[rank]) for rank in range(2))
    first.stdout.readline()
    second.send_signal(how)
    try:
        code = first.wait(120)
    except subprocess.TimeoutExpired:
        first.kill()
        code = "it did not end"
    second.kill()
    logs[0].seek(0)
    said = logs[0].read()
    fine = code not in (0, "it did not end") and re.search(expected, said) is not None
    print(f"{'ok    ' if fine else 'NOT ok'} {name}: exit {code}\n    " + "\n    ".join(said.strip().split("\n")[-4:]), flush=True)
    return fine


def faults(folder):
    at = os.path.join(folder, "faults")
    waits = r"rank 0: [\s\S]*step \d+: \w+[\s\S]*all-reduce over tp with ranks \[0, 1\]"
    stalled = fault(at, "a rank that stands still", signal.SIGSTOP, waits)
    return fault(at, "a rank that is killed", signal.SIGKILL, r"rank 0: [\s\S]*step \d+: \w+") and stalled


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 4, 8])
    parser.add_argument("--json", help="where to write the numbers")
    parser.add_argument("--no-faults", action="store_true")
    options = parser.parse_args()
    rows, fine = conformance(options.folder, options.ranks)
    if options.json:
        with open(options.json, "w") as file:
            json.dump([{key: row[key] for key in ("title", "ranks", "result")} for row in rows], file, indent=1)
    if not options.no_faults:
        fine = faults(options.folder) and fine
    sys.exit(not fine)


if __name__ == "__main__":
    main()
