"""What a run can be told."""
import argparse
import os
from typing import Optional

from . import faults

# What a run that restarts by itself loses at most, if nobody says otherwise.
ELASTIC_SAVE_EVERY = 20
# And what it keeps: the one before the last is there where the last is damaged.
ELASTIC_KEEP = 3
# What all ranks have to meet, and, where there is a time-out, what a start takes beside it on a busy machine.
RENDEZVOUS_SECONDS = 600
START_SECONDS = 20


def arguments(folder: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Trains the program in this folder; started by torchrun.")
    parser.add_argument("--steps", type=int, help="steps, instead of the run's")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--precision", choices=["plan", "f64"], default="plan", help="f64: everything in double")
    parser.add_argument(
        "--timeout", type=float,
        help="seconds without progress before a rank gives up (else: ten times what the very call has ever taken, at least 10)",
    )
    parser.add_argument(
        "--rendezvous", type=float,
        help=f"seconds in which all ranks must have come (--timeout and {START_SECONDS} more; without that {RENDEZVOUS_SECONDS})",
    )
    add_gpu(parser)
    add_checkpoints(parser, folder)
    parser.add_argument(
        "--record-choices", help="a new file: what tokens chose, a line a step, which data.choices repeats; segments run as written"
    )
    parser.add_argument("--metrics", default=os.path.join(folder, "metrics.jsonl"), help="a line of JSON a step")
    parser.add_argument(
        "--profile-every", type=int, default=0,
        help="in every so many steps: what ranks compute, communicate and wait, and what each collective achieves",
    )
    parser.add_argument(
        "--hash-every", type=int, default=0,
        help="after every so many steps: hash what ranks hold, and compare the copies (on a GPU with --same-bits)",
    )
    parser.add_argument("--tensorboard", help="a folder: event files for TensorBoard")
    parser.add_argument(
        "--fault", action="append", default=[], type=known_fault, metavar="KIND:KEY=VALUE,...",
        help=f"a fault on purpose ({', '.join(faults.KEYS)}), such as kill:rank=1,step=5; may be repeated",
    )
    options = parser.parse_args()
    if options.rendezvous is None:
        options.rendezvous = options.timeout + START_SECONDS if options.timeout else RENDEZVOUS_SECONDS
    if options.elastic and not options.save_every:
        options.save_every = ELASTIC_SAVE_EVERY
    if options.elastic and options.keep is None:
        options.keep = ELASTIC_KEEP
    if options.save_every and not options.save:
        options.save = os.path.join(folder, "checkpoints")
    return options


def add_gpu(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--attention", default="", help="on a GPU: cudnn, flash or math; else the first that works")
    parser.add_argument("--no-compile", action="store_true", help="run segments as they are written")
    parser.add_argument("--tune", action="store_true", help="try more kernels before the first step, for faster ones after")
    parser.add_argument(
        "--same-bits", action="store_true", help="on a GPU: no choice of kernels by time, so that every run has the same bits"
    )
    parser.add_argument("--no-graph", action="store_true", help="on one GPU: run call by call, not as a CUDA graph")


def add_checkpoints(parser: argparse.ArgumentParser, folder: str) -> None:
    parser.add_argument("--save", help="a folder: write a checkpoint there after the last step")
    parser.add_argument(
        "--save-every", type=int, default=0,
        help="and after every so many steps (into checkpoints/, where --save names no other folder)",
    )
    parser.add_argument("--save-sync", action="store_true", help="stand still until a checkpoint is written: no memory for a copy")
    parser.add_argument(
        "--keep", type=int,
        help=f"remove all but the last so many checkpoints of this line of runs (0: none; with --elastic {ELASTIC_KEEP}, if nobody says)",
    )
    parser.add_argument("--keep-every", type=int, default=0, help="with --keep: leave those of every so many steps too")
    parser.add_argument("--resume", help="resume from a checkpoint of any plan, or from the last whole one in a folder")
    parser.add_argument("--init", default=default_init(folder), help="a checkpoint whose weights to start with, at step 1")
    parser.add_argument(
        "--elastic", action="store_true",
        help=f"go on from the newest checkpoint in the folder of --save, if there is one (saves every {ELASTIC_SAVE_EVERY} steps, keeps {ELASTIC_KEEP})",
    )


def known_fault(text: str) -> str:
    try:
        faults.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def default_init(folder: str) -> Optional[str]:
    """Weights that were emitted with the program."""
    init = os.path.join(folder, "init")
    return init if os.path.isdir(init) else None
