"""Command line options of train.py."""
import argparse
import os
from typing import Optional

from . import faults

# Steps between checkpoints with --elastic: a failure loses at most this many.
ELASTIC_SAVE_EVERY = 20
# Checkpoints kept with --elastic: earlier ones are there if the latest is corrupt.
ELASTIC_KEEP = 3
# Timeout of the rendezvous, and what startup may add to --timeout on a busy machine.
RENDEZVOUS_SECONDS = 600
START_SECONDS = 20


def arguments(folder: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Trains the program in this folder; started by torchrun.")
    parser.add_argument("--steps", type=int, help="number of steps (default: that of run.json)")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--precision", choices=["plan", "f64"], default="plan", help="f64: compute and store everything in double precision")
    parser.add_argument(
        "--timeout", type=float,
        help="seconds without progress before a rank gives up (default: 10 x the longest time the same call has taken, at least 10)",
    )
    parser.add_argument(
        "--rendezvous", type=float,
        help=f"seconds within which all ranks must arrive (default: --timeout + {START_SECONDS}, or {RENDEZVOUS_SECONDS})",
    )
    add_gpu(parser)
    add_checkpoints(parser, folder)
    parser.add_argument(
        "--record-routing", "--record-choices", dest="record_routing",
        help="write the experts selected for each token to a new file, which data.routing replays; turns torch.compile off",
    )
    parser.add_argument("--metrics", default=os.path.join(folder, "metrics.jsonl"), help="file for metrics, one line of JSON per step")
    parser.add_argument(
        "--profile-every", type=int, default=0,
        help="profile every N-th step: compute, communication and waiting per rank, and the bandwidth of each collective",
    )
    parser.add_argument(
        "--hash-every", type=int, default=0,
        help="after every N steps: hash parameters and optimizer state and compare the replicas (on GPUs turns --same-bits on)",
    )
    parser.add_argument("--tensorboard", help="folder for TensorBoard event files")
    parser.add_argument(
        "--fault", action="append", default=[], type=known_fault, metavar="KIND:KEY=VALUE,...",
        help=f"inject a fault ({', '.join(faults.KEYS)}), such as kill:rank=1,step=5; may be repeated",
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
    parser.add_argument("--attention", default="", help="attention backend on GPUs: cudnn, flash or math (default: the first that works)")
    parser.add_argument("--no-compile", action="store_true", help="do not use torch.compile")
    parser.add_argument("--tune", action="store_true", help="autotune longer before the first step, for faster kernels")
    parser.add_argument(
        "--same-bits", action="store_true", help="on GPUs: do not choose kernels by timing, so that runs are bitwise reproducible"
    )
    parser.add_argument("--no-graph", action="store_true", help="on a single GPU: do not capture the step as a CUDA graph")


def add_checkpoints(parser: argparse.ArgumentParser, folder: str) -> None:
    parser.add_argument("--save", help="folder for checkpoints; one is written after the last step")
    parser.add_argument(
        "--save-every", type=int, default=0,
        help="also save after every N steps (default folder: checkpoints/)",
    )
    parser.add_argument("--save-sync", action="store_true", help="block until a checkpoint is written, instead of copying the state first")
    parser.add_argument(
        "--keep", type=int,
        help=f"keep only the last N checkpoints of this run and those it resumes (0: all; default with --elastic: {ELASTIC_KEEP})",
    )
    parser.add_argument("--keep-every", type=int, default=0, help="with --keep: also keep those of every N-th step")
    parser.add_argument("--resume", help="resume from a checkpoint, written under any plan, or from the latest complete one in a folder")
    parser.add_argument("--init", default=default_init(folder), help="start at step 1 with the weights of a checkpoint")
    parser.add_argument(
        "--elastic", action="store_true",
        help=f"resume from the latest checkpoint in --save, if there is one (saves every {ELASTIC_SAVE_EVERY} steps, keeps {ELASTIC_KEEP})",
    )


def known_fault(text: str) -> str:
    try:
        faults.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def default_init(folder: str) -> Optional[str]:
    """Weights that were written with the program."""
    init = os.path.join(folder, "init")
    return init if os.path.isdir(init) else None
