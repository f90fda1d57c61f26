"""
Products of an emitted folder's runtime on CPU, with stand-ins for cuBLASLt and for the clock. emit_products.py FOLDER: as
JSON, which of some kernels is chosen by their times, what cuBLASLt is told of matrices with a side of one, and how far a compiled
product is from PyTorch's.
"""
import json
import sys

import torch

sys.path.insert(0, sys.argv[1])

from runtime import einsum, gemm  # noqa: E402


def chosen(times):
    """`times` of the kernels at a look, and under load."""
    gemm.seconds = lambda way, least: way()[least != gemm.SHORT_SECONDS]
    return gemm.fastest([lambda one=one: one for one in zip(*times)])


class Library:
    calls = 0

    def gemm(self, a, b, out, add):
        Library.calls += 1
        out.copy_(a.float() @ b.float() + (0 if add is None else add))


def told(x):
    """Rows, columns and the stride between columns, as cuBLASLt counts."""
    library = gemm.Library.__new__(gemm.Library)
    library.created = lambda name, dtype, *sizes: [size.value for size in sizes]
    return gemm.Library.layout(library, x)[0]


cases = json.loads(sys.stdin.read())
result = {"chosen": [chosen(times) for times in cases], "supported": hasattr(torch.library, "custom_op")}
line = torch.zeros(8)
result["told"] = [told(line.as_strided(sizes, strides)) for sizes, strides in (((1, 8), (1, 1)), ((8, 1), (1, 1)), ((1, 8), (8, 1)), ((2, 4), (1, 2)))]
if result["supported"]:
    gemm.library = Library()
    a, b = torch.randn(4, 6).bfloat16(), torch.randn(6, 5).bfloat16()
    compiled = torch.compile(einsum.einsum, backend="aot_eager", dynamic=False)
    half, full = compiled("m k, k n -> m n", a, b), compiled("m k, k n -> m n", a.float(), b.float())
    more = torch.randn(4, 5).bfloat16()
    added = compiled("m k, k n -> m n", a, b, add=more)
    apart = max((half - full).abs().max().item(), (added - more - full).abs().max().item())
    result.update(calls=Library.calls, apart=apart)
print(json.dumps(result))
