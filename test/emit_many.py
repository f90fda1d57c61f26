"""
Runs many emitted folders one after the other, in processes that are copies of this one: torch is loaded once.
emit_many.py list.json [cuda]: [{"folder": ..., "ranks": n, "steps": n, "precisions": [...]}]; each folder gets result.json:
losses per step, the held-out loss after the last, and whole parameters put together from the ranks' parts, by precision.
The first folder has the runtime that all of them use. Where cuda is asked for, all ranks share one GPU and meet over NCCL.
"""
import gc
import json
import os
import sys
import traceback

import time

import torch
import torch._dynamo  # custom operations load it when first called: every copy would
import torch.distributed as dist
import torch.multiprocessing as processes

with open(sys.argv[1]) as file:
    jobs = [{**job, "folder": os.path.join(os.path.dirname(sys.argv[1]), job["folder"])} for job in json.load(file)]
device = torch.device("cuda", 0) if sys.argv[2:] == ["cuda"] else torch.device("cpu")
sys.path.insert(0, jobs[0]["folder"])

from runtime import losses  # noqa: E402
from runtime.trainer import Trainer  # noqa: E402

MOST = losses.MOST


def assembled(trainer):
    """By name: the whole parameter, row-major. Ranks that hold the same part must hold the same numbers."""
    mesh, rank = trainer.here.mesh, trainer.here.rank
    mine = {}
    for param in trainer.program["params"]:
        values = trainer.stage.parameter(param)
        if values is not None:
            starts, sizes, _ = mesh.part(param["dims"], param["kept"], rank)
            values = values.double().flatten().cpu().numpy()  # arrays are sent faster than tensors
            mine[param["name"]] = (starts, sizes, mesh.cut(sizes, param["kept"], rank), values)
    parts = [None] * mesh.world
    dist.all_gather_object(parts, mine)
    whole = {}
    for param in trainer.program["params"]:
        out = torch.full([dim["size"] for dim in param["dims"]], float("nan"), dtype=torch.float64)
        for part in parts:
            if param["name"] in part:
                starts, sizes, (begin, end), values = part[param["name"]]
                window = tuple(slice(a, a + n) for a, n in zip(starts, sizes))
                block = out[window].flatten().clone()
                held, values = block[begin:end], torch.from_numpy(values)[: end - begin]
                if held.numel() and not held.isnan().any():
                    assert (held - values).abs().max() <= 1e-5, f"ranks differ in {param['name']}"
                block[begin:end] = values
                out[window] = block.view(sizes)
        whole[param["name"]] = out.flatten().tolist()
    return whole


def run(job, precision, groups):
    trainer = Trainer(job["folder"], dist.get_rank(), device, precision, groups=groups)
    records = []
    for step in range(job["steps"]):
        # In turns: all logits at once, and a few at a time.
        losses.MOST = MOST if step % 2 == 0 else 512
        records.append(trainer.step(step))
    told = [None] * dist.get_world_size()
    held_out = trainer.evaluate() if "evaluation" in trainer.settings else None
    dist.all_gather_object(told, (records, held_out))
    reported, held_out = told[trainer.program["reporter"]]
    return {"records": reported, "heldOut": held_out, "parameters": assembled(trainer)}


def share_gpu(rank):
    """NCCL refuses two ranks on one GPU of one host: each says it is another host, and they meet over sockets."""
    names = {"NCCL_HOSTID": f"rank{rank}", "NCCL_SOCKET_IFNAME": "lo", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}
    os.environ.update({**names, "NCCL_IB_DISABLE": "1", "NCCL_MAX_NCHANNELS": "1", "NCCL_BUFFSIZE": str(1 << 20)})
    torch.cuda.set_device(device)


def work(rank, mine, store):
    """What one rank of so many does."""
    torch.set_num_threads(1)
    ranks = mine[0]["ranks"]
    if device.type == "cuda":
        share_gpu(rank)
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=dist.FileStore(store, ranks), rank=rank, world_size=ranks)
    groups = {}
    for job in mine:
        started = time.perf_counter()
        try:
            result = {precision: run(job, precision, groups) for precision in job["precisions"]}
        except Exception:
            # The others wait for this rank in vain, and are ended: the first to fail tells why.
            with open(os.path.join(job["folder"], f"failed-{rank}.txt"), "w") as file:
                traceback.print_exc(file=file)
            raise
        if rank == 0:
            with open(os.path.join(job["folder"], "result.json"), "w") as file:
                file.write(json.dumps(result))
            if device.type == "cuda":
                print(f"{ranks} ranks, {time.perf_counter() - started:.1f} s: {job['title']}", flush=True)


def main():
    gc.freeze()  # what torch has made need not be looked through by every copy
    failed = False
    for ranks in sorted({job["ranks"] for job in jobs}):
        mine = [job for job in jobs if job["ranks"] == ranks]
        try:
            processes.start_processes(work, (mine, f"{sys.argv[1]}.{ranks}"), nprocs=ranks, start_method="fork")
        except Exception as error:
            failed = True
            print(error, file=sys.stderr)
    sys.exit(failed)


main()
