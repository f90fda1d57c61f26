"""
Products of experts on a GPU: one kernel for all experts against the loop in f64, with experts that have no rows and numbers that
are none behind the last row; and how fast it is. See README.md beside this file.
    python grouped.py FOLDER
"""
import sys

import torch

sys.path.insert(0, sys.argv[1])

from runtime import grouped_mm, moe  # noqa: E402

device = torch.device("cuda", 0)


def far(actual, expected):
    return ((actual.double() - expected).norm() / expected.norm()).item()


def errors(room, counts, embed, ffn):
    """Of the product, of the gradient of its rows and of that of its weights."""
    used, counts = sum(counts), torch.tensor(counts, device=device)
    rows, drows = (torch.randn(room, width, device=device).bfloat16() for width in (embed, ffn))
    w = torch.randn(len(counts), embed, ffn, device=device).bfloat16()
    rows[used:], drows[used:] = torch.nan, torch.nan
    operands = (rows, counts, w, False), (drows, counts, w, True), (rows, drows, counts)
    makes = moe.grouped_gemm, moe.grouped_gemm, moe.grouped_gemm_weight_grad
    wide = lambda x: x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x  # noqa: E731
    found = []
    for make, given in zip(makes, operands):
        actual, expected = make(*given), make(*(wide(x) for x in given))
        cut = slice(used) if actual.dim() == 2 else slice(None)
        found.append(far(actual[cut], expected[cut]))
    return found


def milliseconds(way, times=20):
    for _ in range(3):
        way()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(times):
        way()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / times


def main():
    grouped_mm.start(device)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}: one kernel for all experts: {grouped_mm.has_kernel}")
    for room, counts, embed, ffn in (
        (64, [10, 0, 30, 1], 64, 32), (512, [0, 0, 0, 0], 64, 128), (4096, [100, 900, 0, 1, 7, 1500, 3, 1300], 256, 512),
    ):
        products, rows, weights = errors(room, counts, embed, ffn) if sum(counts) else (0, 0, 0)
        print(f"{sum(counts):6d} of {room} rows: off by {products:.1e}, {rows:.1e} (rows), {weights:.1e} (weights)")
        assert max(products, rows, weights) < 1e-2
    rows, embed, ffn, many = 32768, 2048, 7168, 8
    x, y = (torch.randn(rows, width, device=device).bfloat16() for width in (embed, ffn))
    w = torch.randn(many, embed, ffn, device=device).bfloat16()
    choice = torch.randint(many, (1, rows // 2, 2), device=device)
    to, source, counts = moe.dispatch_indices(choice, many, many, 0, rows)
    flops = 2 * rows * embed * ffn
    for name, way in (
        ("product", lambda: moe.grouped_gemm(x, counts, w)),
        ("rows", lambda: moe.grouped_gemm(y, counts, w, True)),
        ("weights", lambda: moe.grouped_gemm_weight_grad(x, y, counts)),
        ("one product of as many rows", lambda: x @ w[0]),
    ):
        ms = milliseconds(way)
        print(f"{name:30}{ms:8.3f} ms {flops / ms / 1e9:7.0f} TFLOP/s")
    for name, way in (
        ("rows_of", lambda: moe.dispatch_indices(choice, many, many, 0, rows)),
        ("dispatch", lambda: moe.permute_tokens(x[: rows // 2].unsqueeze(0), source, 2, False)),
        ("combine", lambda: moe.unpermute_tokens(x, to, False)),
    ):
        print(f"{name:30}{milliseconds(way):8.3f} ms")


if __name__ == "__main__":
    main()
