"""Tensor dtypes. Written by scripts/contracts.mjs from src/base/dtype.ts: change it there."""
import torch

# By their names in programs.
DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "i32": torch.int64,
    "i8": torch.int8,
    # Not in every release of PyTorch.
    "f8e4m3": getattr(torch, "float8_e4m3fn", None),
    "f8e5m2": getattr(torch, "float8_e5m2", None),
}

# Their names in the header of a safetensors file.
NAMES = {
    torch.float32: "F32",
    torch.float64: "F64",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int64: "I64",
    torch.int8: "I8",
}
