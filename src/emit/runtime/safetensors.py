"""
safetensors files without the library: a JSON header, then the bytes of the tensors. The metadata has a CRC-32 per tensor, so that a
corrupt tensor is reported instead of loaded.
"""
import ctypes
import json
import os
import zlib
from typing import Dict, Tuple

import torch

from .dtypes import NAMES
from .offload import DiskTensor, Storage, materialize

TYPES = {name: dtype for dtype, name in NAMES.items()}


class Corrupt(RuntimeError):
    """A corrupt file. The message names it."""


class NotFinite(Corrupt):
    """A tensor with NaN or Inf, from which no run could resume."""


def _bytes(tensor: torch.Tensor):
    """The memory of a contiguous tensor, without a copy."""
    return (ctypes.c_char * (tensor.numel() * tensor.element_size())).from_address(tensor.data_ptr())


def _sum(tensor: torch.Tensor) -> int:
    return zlib.crc32(_bytes(tensor))


def sum_of(data: bytes) -> str:
    return f"{zlib.crc32(data):08x}"


def require_finite(name: str, values: torch.Tensor) -> None:
    """Fails for NaN or Inf: one training step spreads it to all parameters."""
    is_finite = torch.isfinite(values)
    if not is_finite.all():
        flat, bad = values.reshape(-1), (~is_finite).reshape(-1).nonzero().reshape(-1)
        first = f"the first ({flat[bad[0]].item()}) at element {bad[0].item()}"
        raise NotFinite(f"tensor {name} has {len(bad)} non-finite (NaN/Inf) values of {len(flat)}, {first}")


def write(path: str, tensors: Dict[str, Storage], metadata: Dict[str, str]) -> None:
    """Tensors on disk are read one by one, twice, since all of them may exceed the host's memory."""
    stored = {name: x if isinstance(x, DiskTensor) else x.detach().cpu().contiguous() for name, x in tensors.items()}
    sums = {name: _sum(materialize(tensor)) if tensor.numel() else 0 for name, tensor in stored.items()}
    header: Dict = {"__metadata__": {**metadata, "crc32": json.dumps(sums)}}
    end = 0
    for name, tensor in stored.items():
        begin, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for tensor in stored.values():
            if tensor.numel():
                values = materialize(tensor)
                file.write(_bytes(values))
        file.flush()
        os.fsync(file.fileno())


class Reader:
    """The tensors of a file, each read and verified on demand."""

    def __init__(self, path: str):
        self.path = path
        try:
            self.file = open(path, "rb")
            length = self.file.read(8)
            size = int.from_bytes(length, "little")
            if size > os.path.getsize(path):
                raise ValueError("the header is longer than the file")
            head = self.file.read(size)
            self.header = json.loads(head)
            # CRC-32 of the header with its length, as 8 hex digits.
            self.head_sum = sum_of(length + head)
            self.start = 8 + size
            self.metadata = self.header["__metadata__"]
            self.sums = json.loads(self.metadata["crc32"])
            end = self.start + max((entry["data_offsets"][1] for name, entry in self.header.items() if name != "__metadata__"), default=0)
            if os.path.getsize(path) > end:
                raise ValueError(f"it is longer than the {end} bytes that were written")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise Corrupt(f"{path} cannot be read: {error}") from None

    def tensor(self, name: str) -> torch.Tensor:
        dtype, shape, begin, end = self._entry(name)
        self.file.seek(self.start + begin)
        raw = bytearray(self.file.read(end - begin))
        if len(raw) != end - begin:
            raise Corrupt(f"{self.path}: tensor {name} is truncated: {len(raw)} of {end - begin} bytes are there")
        if zlib.crc32(raw) != self.sums.get(name):
            raise Corrupt(f"{self.path}: tensor {name} is corrupt: its CRC-32 is not the one that was written")
        return torch.frombuffer(raw, dtype=dtype).reshape(shape) if raw else torch.empty(shape, dtype=dtype)

    def _entry(self, name: str) -> Tuple:
        if name not in self.header:
            raise Corrupt(f"{self.path}: there is no tensor {name}")
        entry = self.header[name]
        return (TYPES[entry["dtype"]], entry["shape"], *entry["data_offsets"])
