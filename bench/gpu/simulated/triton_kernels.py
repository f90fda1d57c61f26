"""Triton kernels on the simulated GPU: Triton's interpreter, on what tensors of the device hold."""
import torch

from . import device
from .device import OnGpu, on_host, outside, state


def counted(*bounds):
    """Of numbers that only the device knows, numbers as the device has them: the interpreter would give Python's."""
    from triton import language as tl

    numbers = range(*[int(x) for x in bounds])
    return (tl.full((), n, tl.int32) for n in numbers) if any(isinstance(x, tl.tensor) for x in bounds) else numbers


def _rounded(interpreter) -> None:
    """
    The interpreter's casts to bf16 and E4M3 lose a carry, and its products take bf16 for whole numbers (Triton 3.8): PyTorch's and NumPy's
    instead.
    """
    import numpy as np
    from triton import language as tl

    kinds = {tl.float8e4nv: (torch.float8_e4m3fn, torch.uint8), tl.bfloat16: (torch.bfloat16, torch.int16)}
    convert, dot = interpreter._convert_float, interpreter.InterpreterBuilder.create_dot

    def converted(values, from_type, to_type, rounding_mode):
        if from_type == tl.float32 and to_type in kinds:
            dtype, bits = kinds[to_type]
            made = torch.from_numpy(np.ascontiguousarray(values).view(np.float32).copy()).to(dtype)
            return made.view(bits).numpy().view(getattr(np, f"uint{8 * dtype.itemsize}"))
        return convert(values, from_type, to_type, rounding_mode)

    def multiplied(self, a, b, d, *how):
        if a.dtype == tl.bfloat16:
            a, b = (interpreter.TensorHandle((x.data.astype(np.uint32) << 16).view(np.float32), tl.float32) for x in (a, b))
        return dot(self, a, b, d, *how)

    interpreter._convert_float = converted
    interpreter.InterpreterBuilder.create_dot = multiplied


def start() -> None:
    try:
        from triton.runtime import interpreter
    except ImportError:
        return
    with outside():
        _rounded(interpreter)
    run = interpreter.InterpretedFunction.run

    def launched(self, *args, grid, warmup=False, **kwargs):
        self.fn.__globals__["range"] = counted
        tensors = [on_host(x) for x in args if isinstance(x, torch.Tensor)]
        if any(not isinstance(x, OnGpu) for x in args if isinstance(x, torch.Tensor)) and not device.inside():
            raise ValueError("Pointer argument cannot be accessed from Triton (cpu tensor?)")
        if any(n > limit for n, limit in zip(grid, (2**31 - 1, 2**16 - 1, 2**16 - 1))):
            raise RuntimeError(f"Triton Error [CUDA]: invalid argument: a grid of {grid}")

        def launch() -> None:
            with outside():
                run(self, *[on_host(x) for x in args], grid=grid, warmup=warmup, **kwargs)

        device.used(tensors, tensors)
        if state.capturing is not None:
            with outside():
                state.capturing.kernel(launch, tensors)
        else:
            launch()

    interpreter.InterpretedFunction.run = launched
