"""What the runtime of an emitted folder keeps of choices. emit_room.py FOLDER: for each case of stdin, in f32 and in f64."""
import json
import sys

import torch

sys.path.insert(0, sys.argv[1])

from runtime import moe  # noqa: E402


def kept(case, dtype):
    scores = torch.tensor(case["scores"], dtype=torch.float32).to(dtype)
    choice = torch.tensor(case["choice"]).reshape(1, -1, 1).long()
    return moe.apply_capacity(scores.reshape(1, -1, 1), choice, case["room"], choice.numel(), "probability").flatten().tolist()


print(json.dumps([[kept(case, dtype) for dtype in (torch.float32, torch.float64)] for case in json.loads(sys.stdin.read())]))
