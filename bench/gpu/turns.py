"""
Emitted programs of several folders in turns, on one GPU, in one process: see README.md beside this file.
    python turns.py FOLDER... [--rounds 5] [--steps 5] [--profile] [--train N]
"""
import argparse
import os
import statistics

import torch
from race import Emitted, Memory, first_steps, profile, seconds

# Emitted programs load their own data.
NOTHING = [()] * 4


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5, help="steps of a round")
    parser.add_argument("--profile", action="store_true", help="where the GPU's time goes, kernel by kernel")
    parser.add_argument("--train", type=int, default=0, help="instead: so many steps each, and their losses")
    options = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    if options.train:
        return train(options)
    contenders, memories, rows = {}, {}, {}
    for folder in options.folders:
        memories[folder] = Memory()
        contenders[folder] = Emitted(folder)
        memories[folder].entered()
    for name, contender in contenders.items():
        rows[name] = first_steps(contender, memories[name], NOTHING)
    times = {name: [] for name in contenders}
    for _ in range(options.rounds):
        for name, contender in contenders.items():
            times[name].append(seconds(contender, NOTHING, options.steps))
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    for name, each in times.items():
        losses, (peak, _) = rows[name]
        told = f"{1e3 * statistics.median(each):9.1f} ms{1e3 * min(each):9.1f} best{peak / 1e9:9.1f} GB"
        print(f"{os.path.basename(name):24}{told}  {' '.join(f'{loss:.4f}' for loss in losses)}")
    if options.profile:
        for name, contender in contenders.items():
            profile(name, contender, NOTHING)


def train(options):
    """Losses every 20 steps, the mean of the last 20, and that of text held out."""
    for folder in options.folders:
        contender = Emitted(folder)
        losses = [contender.step().item() for _ in range(options.train)]
        told = " ".join(f"{loss:.4f}" for loss in losses[19::20])
        with torch.no_grad():
            held_out = contender.trainer.evaluate()
        means = f"the last 20 on average {statistics.mean(losses[-20:]):.4f}, held out {held_out:.4f}"
        print(f"{os.path.basename(folder):24}{told}; {means}")
        del contender
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
