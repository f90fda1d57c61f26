"""What one rank of conformance.py does: its items one after the other, each into a file of its own."""
import json
import os
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist
from assembled import assembled
from runtime import attention, gemm, losses, optimizer
from runtime.trainer import Trainer

MAX_CHUNK_BYTES = losses.MAX_CHUNK_BYTES


def device_of(asked: str) -> torch.device:
    return torch.device("cpu") if asked == "cpu" else torch.device("cuda", 0)


def share_gpu(rank: int) -> None:
    """NCCL refuses two ranks on one GPU of one host: each says it is another host, and they meet over sockets."""
    names = {"NCCL_HOSTID": f"rank{rank}", "NCCL_SOCKET_IFNAME": "lo", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}
    os.environ.update({**names, "NCCL_IB_DISABLE": "1", "NCCL_MAX_NCHANNELS": "1", "NCCL_BUFFSIZE": str(1 << 20)})


def work(rank: int, ranks: int, items, store: str, folder: str, results: str, asked: str) -> None:
    device = device_of(asked)
    if asked == "cuda":
        share_gpu(rank)
        torch.cuda.set_device(device)
    dist.init_process_group(
        "nccl" if asked == "cuda" else "gloo", store=dist.FileStore(store, ranks), rank=rank, world_size=ranks,
        timeout=timedelta(hours=1),
    )
    # Ranks that share a GPU would time each other's work.
    gemm.autotune = ranks == 1
    if device.type == "cuda" and any("way" in item for item in items):
        attention.choose(device)
    groups = {}
    for item in items:
        path = os.path.join(results, str(item["index"]))
        try:
            result = helped(item, device, asked) if "helper" in item else ran(item, device, folder, groups)
            if asked == "simulated" and ranks > 1:
                require_one_order()
        except Exception:
            with open(f"{path}.failed", "a") as file:
                file.write(f"rank {rank}:\n{traceback.format_exc()[-3000:]}")
            raise
        if rank == 0:
            with open(f"{path}.writing", "w") as file:
                json.dump(result, file)
            os.rename(f"{path}.writing", f"{path}.done")


def require_one_order() -> None:
    from simulated import nccl

    said = nccl.differing_orders()
    if said:
        raise RuntimeError(said)


@torch.no_grad()
def helped(item, device, asked: str):
    import helpers

    helpers.run(item["helper"], helpers.Bench(device, asked == "simulated"))
    return {}


def ran(item, device, folder: str, groups):
    compiled, recorded = item["way"] == "compiled", item["way"] == "recorded"
    made = {}
    # To compile takes long: what is compiled runs as the plan says, or else in f64.
    for precision in item["precisions"][-1:] if compiled else item["precisions"]:
        trainer = Trainer(
            os.path.join(folder, item["folder"]), dist.get_rank(), device, precision, compiled, recorded, process_groups=groups
        )
        made[precision] = trained(trainer, item)
        if recorded and trainer.runner.graph is None:
            raise RuntimeError("its step was not recorded")
        if compiled:
            optimizer.compiled.clear()
            torch._dynamo.reset()
    return made


def trained(trainer, item):
    records = []
    for step in range(item["steps"]):
        # In turns: all logits at once, and a few at a time.
        losses.MAX_CHUNK_BYTES = MAX_CHUNK_BYTES if step % 2 == 0 or item["way"] != "written" else 512
        records.append(trainer.step(step))
    told = [None] * dist.get_world_size()
    dist.all_gather_object(told, (records, trainer.evaluate()))
    reported, held_out = told[trainer.program["reporter"]]
    kept = [{key: record[key] for key in ("loss", "gradientNorm")} for record in reported]
    return {"records": kept, "heldOut": held_out, "parameters": assembled(trainer)}
