"""
Asked in an emitted folder with checkpoints of steps 2 and 4: whatever bit, end or file of the last is gone, the reader of the
runtime finds it, names the file and takes the one before. Prints what was found, as JSON.
"""
import json
import os
import random
import sys

from runtime import latest


class Store(dict):
    """Of one rank."""

    def set(self, key, value):
        self[key] = value.encode()

    def get(self, key):
        return self[key]


def damaged(data: bytes, kind: str, draw: random.Random):
    if kind == "one bit":
        at = draw.randrange(len(data))
        return data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :]
    return {"cut short": data[: draw.randrange(len(data))], "longer": data + b"more", "gone": None}[kind]


folder, count, draw = sys.argv[1], int(sys.argv[2]), random.Random(1)
last = os.path.join(folder, "step-00000004")
missed = []
for _ in range(count):
    name = draw.choice(sorted(os.listdir(last)))
    kind = draw.choice(["one bit", "one bit", "one bit", "cut short", "longer", "gone"])
    path = os.path.join(last, name)
    with open(path, "rb") as file:
        data = file.read()
    other = damaged(data, kind, draw)
    os.remove(path)
    if other is not None:
        with open(path, "wb") as file:
            file.write(other)
    found = latest.find(folder, 0, 1, Store())
    text = found.skipped[0][1] if found.skipped else ""
    if not found.folder.endswith("step-00000002") or name not in text:
        missed.append([kind, name, found.folder, text])
    with open(path, "wb") as file:
        file.write(data)
whole = latest.find(folder, 0, 1, Store())
print(json.dumps({"missed": missed, "whole": [whole.folder, whole.skipped]}))
