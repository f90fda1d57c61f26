"""transformers' generate, greedily, with its cache, on one thread.

usage: generate.py folder
Requests, one line each; ids of the prompt stand behind the number of tokens to make:
  ids n id ...    the ids that follow
  time n id ...   the seconds that this takes
"""
import sys
import time

import torch
from transformers import AutoModelForCausalLM

torch.set_num_threads(1)
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).eval()


@torch.inference_mode()
def made(count, prompt):
    ids = torch.tensor([prompt])
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, min_new_tokens=count, do_sample=False, use_cache=True, pad_token_id=0)
    return out[0, len(prompt):].tolist()


print('ready', flush=True)
for line in sys.stdin:
    request, count, *prompt = line.split()
    begun = time.perf_counter()
    ids = made(int(count), [int(word) for word in prompt])
    seconds = time.perf_counter() - begun
    print('ok', *(ids if request == 'ids' else [seconds]), flush=True)
