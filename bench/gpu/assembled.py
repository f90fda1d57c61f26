"""Full parameters, reassembled from the shards of all ranks of an emitted program: for conformance.py, and for test/emit_many.py on CPUs."""
import torch
import torch.distributed as dist


def assembled(trainer):
    """By name: the full parameter, row-major. Replicas of a shard must be equal."""
    mesh, rank = trainer.ctx.mesh, trainer.ctx.rank
    mine = {}
    for param in trainer.program["params"]:
        values = trainer.stage.parameter(param)
        if values is not None:
            starts, sizes, _ = mesh.shard_box(param["dims"], param["kept"], rank)
            values = values.double().flatten().cpu().numpy()  # arrays are sent faster than tensors
            mine[param["name"]] = (starts, sizes, mesh.flat_range(sizes, param["kept"], rank), values)
    parts = [None] * mesh.world
    dist.all_gather_object(parts, mine)
    return {param["name"]: whole_of(param, [part[param["name"]] for part in parts if param["name"] in part]) for param in trainer.program["params"]}


def whole_of(param, parts):
    out = torch.full([dim["size"] for dim in param["dims"]], float("nan"), dtype=torch.float64)
    for starts, sizes, (begin, end), values in parts:
        window = tuple(slice(a, a + n) for a, n in zip(starts, sizes))
        block = out[window].flatten().clone()
        held, values = block[begin:end], torch.from_numpy(values)[: end - begin]
        if held.numel() and not held.isnan().any():
            assert (held - values).abs().max() <= 1e-5, f"ranks differ in {param['name']}"
        block[begin:end] = values
        out[window] = block.view(sizes)
    return out.flatten().tolist()
