"""
Attention of parts of a sequence, cut into the blocks that fused ops know, is attention: forward, backward and lse, of every rank of
every split, gathered and turn by turn. The ops stand in for PyTorch's own on a CPU; with `cuda` they are PyTorch's own.
"""
import sys

import torch

sys.path.insert(0, sys.argv[1])
from runtime import attention as module  # noqa: E402
from runtime import documents, fused, parts  # noqa: E402

device = sys.argv[2] if len(sys.argv) > 2 else "cpu"
dtype = torch.float64 if device == "cpu" else torch.bfloat16
bound = 1e-12 if device == "cpu" else 0.05


def _grouped(x):
    return x.unsqueeze(3)


def _stand_in_forward(q, k, v, scale, causal):
    first = 0 if causal else k.shape[1]
    out, lse = module.attention(_grouped(q), k, v, scale, query_first=first)
    return out.squeeze(3), lse.squeeze(3).permute(0, 2, 1)


def _stand_in_backward(dout, q, k, v, out, lse, scale, causal):
    first = 0 if causal else k.shape[1]
    rows = _grouped(lse.permute(0, 2, 1))
    dq, dk, dv = module.attention_grad(
        _grouped(dout), _grouped(q), k, v, _grouped(out), rows, scale, query_first=first
    )
    return dq.squeeze(3), dk, dv


def near(given, expected, what):
    scale = max(1e-3, float(expected.abs().max()))
    worst = float((given.double() - expected.double()).abs().max()) / scale
    assert worst <= bound, f"{what}: off by {worst}"


def start_of(rank, ranks, size, zigzag):
    return parts.zigzag(rank, ranks, 0, 1, size) if zigzag else rank * size


def check(op, ranks, zigzag, x, scale):
    dout, q, k, v = x
    out, lse = module.attention(q, k, v, scale, query_first=0)
    grads = module.attention_grad(dout, q, k, v, out, lse, scale, query_first=0)
    size = q.shape[1] // ranks
    sums = [torch.zeros_like(each) for each in (k, v)]
    for rank in range(ranks):
        first = start_of(rank, ranks, size, zigzag)
        mine = [parts.narrow(each, 1, first, size) for each in (dout, q, out, lse, grads[0])]
        whole = fused.blocks(first, size, 0, k.shape[1])
        made, total = fused.forward_blocks(op, mine[1], k, v, scale, whole)
        near(made, mine[2], "gathered out")
        near(total, mine[3], "gathered lse")
        sum_out, dq = None, torch.zeros_like(mine[4])
        for turn in range(ranks):
            at = start_of((rank - turn) % ranks, ranks, size, zigzag)
            held = [parts.narrow(each, 1, at, size) for each in (k, v)]
            cut = fused.blocks(first, size, at, size)
            assert cut is not None and len(cut) <= 1, "a turn is one block"
            share = fused.forward_blocks(op, mine[1], *held, scale, cut)
            sum_out = share if sum_out is None else fused.merge(*sum_out, *share)
            made = fused.backward_blocks(op, mine[0], mine[1], *held, mine[2], mine[3], scale, cut)
            dq += made[0]
            for total, addend in zip(sums, made[1:]):
                index = parts.positions(at, size, device)
                total.index_add_(1, index, addend)
        near(sum_out[0], mine[2], "merged out")
        near(sum_out[1], mine[3], "merged lse")
        near(dq, mine[4], "dq")
    for given, expected, what in zip(sums, grads[1:], ("dk", "dv")):
        near(given, expected, what)


def _stand_in_documents(of, count):
    """An op of one sequence, document by document."""

    def each(*given):
        *rows, bounds, longest, scale, window = given
        made = []
        for first, last in zip(bounds.tolist(), bounds.tolist()[1:]):
            assert last - first <= longest
            one = [x[first:last].unsqueeze(0) for x in rows]
            made.append([x[0] for x in of(one, scale, window)])
        return tuple(torch.cat([parts[i] for parts in made]) for i in range(count))

    return each


def _one_forward(x, scale, window):
    q, k, v = x
    group = q.shape[2] // k.shape[2]
    out, lse = module.attention(q.unflatten(2, (-1, group)), k, v, scale, window, query_first=0)
    return out.flatten(2, 3), lse.flatten(2, 3)


def _one_backward(x, scale, window):
    dout, q, k, v, out, lse = x
    group = q.shape[2] // k.shape[2]
    dout, q, out, lse = (each.unflatten(2, (-1, group)) for each in (dout, q, out, lse))
    dq, dk, dv = module.attention_grad(dout, q, k, v, out, lse, scale, window, query_first=0)
    return dq.flatten(2, 3), dk, dv


def check_documents(op, x, window):
    dout, q, k, v = (torch.cat((each, each.flip(1))) for each in x)
    index = torch.arange(q.shape[1], device=device).expand(2, -1)
    places = index % torch.tensor([[37], [200]], device=device)
    for _ in range(2):
        out, lse = module.attention(q, k, v, 0.1, window, query_first=0, places=places)
        grads = module.attention_grad(dout, q, k, v, out, lse, 0.1, window, query_first=0, places=places)
        made, given = documents.forward(op, q, k, v, 0.1, window, places)
        near(made, out, "out of documents")
        found = documents.backward(op, dout, q, k, v, made, given, 0.1, window, places)
        for grad, expected in zip(found, grads):
            near(grad, expected, "gradients of documents")
        places.copy_(index % 50)  # other documents where those lay


torch.manual_seed(1)
# Values that are narrower than keys.
shapes = [(1, 128, 2, 2, 32), (1, 128, 2, 2, 64), (1, 128, 2, 64), (1, 128, 2, 32)]
tensors = [torch.randn(shape, device=device).to(dtype) for shape in shapes]
varlen = documents.Varlen(_stand_in_documents(_one_forward, 2), _stand_in_documents(_one_backward, 3))
if device == "cpu":
    ops = [fused.Fused("written out", _stand_in_forward, _stand_in_backward, grouped=False)]
else:
    print("chosen:", module.choose(torch.device(device)), "for parts:", module.chosen_for_parts and module.chosen_for_parts.name)
    assert module.chosen_for_parts is not None and module.chosen_for_documents is not None
    varlen = module.chosen_for_documents
    module.chosen_for_documents = None
    ops = [module.chosen_for_parts]
    module.chosen = module.chosen_for_parts = None
for op in ops:
    for ranks in (2, 4, 8):
        for zigzag in (False, True):
            check(op, ranks, zigzag, tensors, 0.1 if zigzag else None)
for window in (None, 20):
    check_documents(varlen, tensors, window)
assert fused.blocks(0, 4, 2, 4) is None, "half of a square is no block"
print("ok")
