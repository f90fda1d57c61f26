"""TensorBoard event files, written without the package. A record is: length, masked CRC-32C, Event, masked CRC-32C."""
import os
import socket
import struct
import time
from typing import Dict, List, Optional, Union


def _table() -> List[int]:
    rows = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        rows.append(crc)
    return rows


_TABLE = _table()


def masked_crc(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _integer(field: int, value: int) -> bytes:
    return _varint(field * 8) + _varint(value)


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field * 8 + 2) + _varint(len(data)) + data


def framed(payload: bytes) -> bytes:
    head = struct.pack("<Q", len(payload))
    return head + struct.pack("<I", masked_crc(head)) + payload + struct.pack("<I", masked_crc(payload))


def event(moment: float, step: int, content: bytes) -> bytes:
    """Step 0 is the protobuf default, and is omitted."""
    when = b"\x09" + struct.pack("<d", moment)
    return framed(when + (_integer(2, step) if step else b"") + content)


def scalar(tag: str, value: float) -> bytes:
    return _bytes(1, _bytes(1, tag.encode()) + b"\x15" + _f32(value))


def _f32(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:  # above the range of f32
        return struct.pack("<f", float("inf") if value > 0 else float("-inf"))


def text(tag: str, content: str) -> bytes:
    tensor = _integer(1, 7) + _bytes(2, _bytes(2, _integer(1, 1))) + _bytes(8, content.encode())
    return _bytes(1, _bytes(1, tag.encode()) + _bytes(8, tensor) + _bytes(9, _bytes(1, _bytes(1, b"text"))))


# The curves of `lockstep train --tensorboard`: tag, field of the record, factor.
CURVES = [
    ("train/loss", "loss", 1),
    ("val/loss", "evalLoss", 1),
    ("train/lr", "lr", 1),
    ("train/grad_norm", "gradientNorm", 1),
    ("train/loss_scale", "scale", 1),
    ("optimizer/applied_steps", "taken", 1),
    ("perf/step_time", "seconds", 1),
    ("perf/tokens_per_sec", "tokensPerSecond", 1),
    ("perf/flops_per_sec", "flopsPerSecond", 1),
    ("train/global_batch", "globalBatch", 1),
    ("memory/peak_gib", "peakBytes", 2**-30),
]


class TensorBoard:
    """One folder is one run; a run that resumes in the folder of an earlier one writes its own file."""

    def __init__(self, folder: str, first: int, about: Optional[str] = None) -> None:
        os.makedirs(folder, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}"
        numbers = (i for i in range(1000) if not os.path.exists(os.path.join(folder, f"{name}.{i}")))
        self.path = os.path.join(folder, f"{name}.{next(numbers)}")
        self.next = first
        self._append(event(time.time(), 0, _bytes(3, b"brain.Event:2")))
        if first > 1:
            self._restart(first)
        if about:
            self._append(event(time.time(), first - 1, _bytes(5, text("job", about))))

    def step(self, record: Dict) -> None:
        step = record["step"]
        if step < self.next:
            self._restart(step)
        self.next = step + 1
        # The loss of a skipped step is not meaningful.
        hidden = ["loss"] if "skipped" in record else []
        content = [(tag, record[key], by) for tag, key, by in CURVES if record.get(key) is not None and key not in hidden]
        self._append(event(time.time(), step, _bytes(5, b"".join(scalar(tag, x * by) for tag, x, by in content))))

    def event(self, found: Dict) -> None:
        parts: List[Union[str, None]] = [f"**{found['severity']}**: {found['message']}", found.get("advice")]
        content = "\n\n".join(part for part in parts if part)
        step = max(int(found.get("step", 0)), self.next - 1)
        self._append(event(time.time(), step, _bytes(5, text(f"events/{found['event']}", content))))

    def _restart(self, step: int) -> None:
        """A restart marker: readers drop points of this step and later, which are from before the restart."""
        self._append(event(time.time(), step, _bytes(7, _integer(1, 1))))

    def _append(self, record: bytes) -> None:
        # The file may end with a partial record: readers wait for the rest.
        with open(self.path, "ab") as file:
            file.write(record)
