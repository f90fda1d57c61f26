"""
Attention of parts of a sequence, cut into the blocks that fused ops know, is attention: forward, backward and lse, of every rank of
every split, gathered and turn by turn. The ops stand in for PyTorch's own on a CPU; with `cuda` they are PyTorch's own.
"""
import sys

import torch

sys.path.insert(0, sys.argv[1])
from runtime import attention as module  # noqa: E402
from runtime import fused_attention, rng, shards, varlen  # noqa: E402

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
    return shards.zigzag_start(rank, ranks, 0, 1, size) if zigzag else rank * size


def check(op, ranks, zigzag, x, scale):
    dout, q, k, v = x
    out, lse = module.attention(q, k, v, scale, query_first=0)
    grads = module.attention_grad(dout, q, k, v, out, lse, scale, query_first=0)
    size = q.shape[1] // ranks
    sums = [torch.zeros_like(each) for each in (k, v)]
    for rank in range(ranks):
        first = start_of(rank, ranks, size, zigzag)
        mine = [shards.narrow(each, 1, first, size) for each in (dout, q, out, lse, grads[0])]
        whole = fused_attention.blocks(first, size, 0, k.shape[1])
        made, total = fused_attention.forward_blocks(op, mine[1], k, v, scale, whole)
        near(made, mine[2], "gathered out")
        near(total, mine[3], "gathered lse")
        sum_out, dq = None, torch.zeros_like(mine[4])
        for turn in range(ranks):
            at = start_of((rank - turn) % ranks, ranks, size, zigzag)
            held = [shards.narrow(each, 1, at, size) for each in (k, v)]
            cut = fused_attention.blocks(first, size, at, size)
            assert cut is not None and len(cut) <= 1, "a turn is one block"
            share = fused_attention.forward_blocks(op, mine[1], *held, scale, cut)
            sum_out = share if sum_out is None else fused_attention.merge(*sum_out, *share)
            made = fused_attention.backward_blocks(op, mine[0], mine[1], *held, mine[2], mine[3], scale, cut)
            dq += made[0]
            for total, addend in zip(sums, made[1:]):
                index = shards.positions(at, size, device)
                total.index_add_(1, index, addend)
        near(sum_out[0], mine[2], "merged out")
        near(sum_out[1], mine[3], "merged lse")
        near(dq, mine[4], "dq")
    for given, expected, what in zip(sums, grads[1:], ("dk", "dv")):
        near(given, expected, what)


def _segments(bounds):
    """Queries and keys of each segment, and where the queries stand before the keys."""
    for first, last, low, high in zip(*(ends.tolist()[i:] for ends in bounds[:2] for i in (0, 1))):
        assert last - first <= bounds.max_queries and high - low <= bounds.max_keys
        yield slice(first, last), slice(low, high), high - low - (last - first if bounds.causal else 0)


def _stand_in_varlen_forward(q, k, v, bounds, scale, window):
    group, made = q.shape[1] // k.shape[1], []
    for of, held, before in _segments(bounds):
        some = q[of].unflatten(1, (-1, group)).unsqueeze(0)
        made.append(module.attention(some, k[None, held], v[None, held], scale, window, query_first=before))
    return torch.cat([out[0].flatten(1, 2) for out, _ in made]), torch.cat([lse[0].flatten(1) for _, lse in made]).t()


def _stand_in_varlen_backward(dout, q, k, v, out, lse, bounds, scale, window):
    group, made = q.shape[1] // k.shape[1], []
    for of, held, before in _segments(bounds):
        rows = [x[of].unflatten(1, (-1, group)).unsqueeze(0) for x in (dout, q, out, lse.t())]
        slopes = module.attention_grad(
            rows[0], rows[1], k[None, held], v[None, held], *rows[2:], scale, window, query_first=before
        )
        made.append([slopes[0][0].flatten(1, 2), slopes[1][0], slopes[2][0]])
    return tuple(torch.cat(parts) for parts in zip(*made))


def check_documents(op, x, window):
    dout, q, k, v = (torch.cat((each, each.flip(1))) for each in x)
    index = torch.arange(q.shape[1], device=device).expand(2, -1)
    places = index % torch.tensor([[37], [200]], device=device)
    for _ in range(2):
        out, lse = module.attention(q, k, v, 0.1, window, query_first=0, doc_positions=places)
        grads = module.attention_grad(dout, q, k, v, out, lse, 0.1, window, query_first=0, doc_positions=places)
        made, given = varlen.forward(op, q, k, v, 0.1, window, places)
        near(made, out, "out of documents")
        found = varlen.backward(op, dout, q, k, v, made, given, 0.1, window, places)
        for grad, expected in zip(found, grads):
            near(grad, expected, "gradients of documents")
        places.copy_(index % 50)  # other documents where those lay


def laid(x, orders):
    return torch.stack([row[order] for row, order in zip(x, orders)])


def check_document_parts(op, ranks, zigzag, x):
    """Gathered and turn by turn, of documents that end within and between parts, or are cut one by one."""
    dout, q, k, v = (torch.cat((each, each.flip(1))) for each in x)
    index = torch.arange(q.shape[1], device=device).expand(2, -1)
    places = index % torch.tensor([[37], [200]], device=device)
    order = None
    if zigzag == "documents":
        places = torch.stack([torch.cat([torch.arange(n) for n in lengths]) for lengths in ([16, 48, 64], [128])]).to(device)
        order = torch.stack([shards.zigzag_document_order(row, ranks) for row in places.cpu()]).to(device)
    out, lse = module.attention(q, k, v, query_first=0, doc_positions=places)
    grads = module.attention_grad(dout, q, k, v, out, lse, query_first=0, doc_positions=places)
    if order is not None:
        dout, q, k, v, out, lse, places, *grads = (laid(each, order) for each in (dout, q, k, v, out, lse, places, *grads))
        made = module.attention(q, k, v, doc_positions=places, token_order=order)
        for given, expected in zip((*made, *module.attention_grad(dout, q, k, v, *made, doc_positions=places, token_order=order)), (out, lse, *grads)):
            near(given, expected, "documents in another order")
    zigzag = zigzag is True
    size = q.shape[1] // ranks
    sums = [torch.zeros_like(each) for each in (k, v)]
    for rank in range(ranks):
        first = start_of(rank, ranks, size, zigzag)
        *mine, here = [shards.narrow(each, 1, first, size) for each in (dout, q, out, lse, grads[0], places)]
        made, total = varlen.forward_segments(op, mine[1], k, v, None, varlen.segments_of(here, first, 0, k.shape[1], order))
        near(made, mine[2], "gathered out of documents")
        near(total, mine[3], "gathered lse of documents")
        sum_out, dq = None, torch.zeros_like(mine[4])
        for turn in range(ranks):
            at = start_of((rank - turn) % ranks, ranks, size, zigzag)
            held = [shards.narrow(each, 1, at, size) for each in (k, v)]
            cut = varlen.segments_of(here, first, at, size, order)
            assert cut is not None
            share = varlen.forward_segments(op, mine[1], *held, None, cut)
            sum_out = share if sum_out is None else fused_attention.merge(*sum_out, *share)
            made = varlen.backward_segments(op, mine[0], mine[1], *held, mine[2], mine[3], None, cut)
            dq += made[0]
            for total, addend in zip(sums, made[1:]):
                total.index_add_(1, shards.positions(at, size, device), addend)
        near(sum_out[0], mine[2], "merged out of documents")
        near(dq, mine[4], "dq of documents")
    for given, expected, what in zip(sums, grads[1:], ("dk", "dv")):
        near(given, expected, f"{what} of documents")


torch.manual_seed(1)
# Values that are narrower than keys.
shapes = [(1, 128, 2, 2, 32), (1, 128, 2, 2, 64), (1, 128, 2, 64), (1, 128, 2, 32)]
tensors = [torch.randn(shape, device=device).to(dtype) for shape in shapes]
varlen_op = varlen.Varlen(_stand_in_varlen_forward, _stand_in_varlen_backward)
def check_windows(op, x):
    """A window narrower than a whole sequence is flash attention's; a wider one is none."""
    q, k, v = (each.bfloat16() for each in x[1:])
    module.chosen, module.supports_windows = op, True
    asked = lambda window, first=None, dropout=0.0: module._full_op(q, k, v, window, first, dropout, None)  # noqa: E731
    assert asked(None) is op and asked(k.shape[1]) is op, "no window"
    assert asked(20).forward.keywords == asked(20).backward.keywords == {"window": 20}, "a window"
    assert asked(20, first=0) is None and asked(20, dropout=0.1) is None, "parts and dropout"
    module.supports_windows = False
    assert asked(20) is None, "no flash attention"
    module.chosen = None


if device == "cpu":
    ops = [fused_attention.Fused("written out", _stand_in_forward, _stand_in_backward, supports_gqa=False)]
else:
    print("chosen:", module.choose(torch.device(device)), "for parts:", module.chosen_for_shards and module.chosen_for_shards.name)
    assert module.chosen_for_shards is not None and module.chosen_for_documents is not None
    assert module.supports_windows and rng._mask_agrees(torch.device(device)) and rng._bits_agree(torch.device(device))
    varlen_op = module.chosen_for_documents
    module.chosen_for_documents = None
    ops = [module.chosen_for_shards]
    module.chosen = module.chosen_for_shards = None
for op in ops:
    check_windows(op, tensors)
    for ranks in (2, 4, 8):
        for zigzag in (False, True):
            check(op, ranks, zigzag, tensors, 0.1 if zigzag else None)
for window in (None, 20):
    check_documents(varlen_op, tensors, window)
for ranks in (2, 4):
    for zigzag in (False, True, "documents"):
        check_document_parts(varlen_op, ranks, zigzag, tensors)
assert fused_attention.blocks(0, 4, 2, 4) is None, "half of a square is no block"
print("ok")
