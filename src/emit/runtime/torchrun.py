"""torchrun for launch.sh. A rank that fails has said why: what the launcher would add is a traceback of itself."""
import logging
import sys

from torch.distributed import run
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError


def main() -> None:
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    try:
        run.main()
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        end(f"the first to end was rank {rank}, with exit code {failure.exitcode}")
    except Exception as error:  # nodes that did not meet, a signal
        end(f"torchrun: {(str(error).splitlines() or [type(error).__name__])[0]}")


def end(why: str) -> None:
    print(f"lockstep: {why}", file=sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    main()
