"""
A simulated GPU: code that only a GPU takes runs on a machine without one. `start` turns it on, for the process and what it forks.

Tensors of the device hold CPU tensors and say they are CUDA's. It is strict where CUDA is, and stricter where CUDA would give
wrong numbers without a word: see device.py (devices, streams, races), graphs.py (CUDA graphs), nccl.py (collectives) and
libraries.py (cuBLAS, cuBLASLt, flash attention). Triton kernels run in Triton's interpreter. compiler.py stands between torch.compile and the device.
"""
import os

os.environ["TRITON_INTERPRET"] = "1"  # read when kernels are defined

from .device import DEVICE, OnGpu, Race, on_host, synchronize  # noqa: E402,F401


def start(backend: str = "aot_eager") -> None:
    """`backend` is what torch.compile compiles with: aot_eager traces as a GPU's does and compiles nothing, inductor compiles C++."""
    from . import compiler, device, graphs, libraries, nccl, triton_kernels

    device.start()
    graphs.start()
    libraries.start()
    triton_kernels.start()
    nccl.start()
    compiler.start(backend)
