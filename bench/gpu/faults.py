"""Two ranks train, the second is stopped or killed, and the first must say where it was and whom it waits for: for conformance.py."""
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile

FAULTS = {
    "a rank that is stopped": (signal.SIGSTOP, r"rank 0: [\s\S]*step \d+: \w+[\s\S]*all-reduce over tp with ranks \[0, 1\]"),
    "a rank that is killed": (signal.SIGKILL, r"rank 0: [\s\S]*step \d+: \w+"),
}


def _rank(rank: int, port: int, folder: str, device: str, log):
    names = {
        "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        "NCCL_HOSTID": f"rank{rank}", "NCCL_SOCKET_IFNAME": "lo", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1",
        "NCCL_IB_DISABLE": "1",
    }
    command = [sys.executable, "train.py", "--no-compile", "--timeout", "10", "--device", device]
    return subprocess.Popen(command, cwd=folder, env={**os.environ, **names}, stdout=subprocess.PIPE, stderr=log, text=True)


def run(name: str, folder: str, device: str) -> str:
    """What is wrong; "" if nothing is."""
    how, expected = FAULTS[name]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryFile("w+") as log, tempfile.TemporaryFile("w+") as other:
        first, second = (_rank(rank, port, folder, device, (log, other)[rank]) for rank in range(2))
        first.stdout.readline()
        second.send_signal(how)
        try:
            code = first.wait(120)
        except subprocess.TimeoutExpired:
            first.kill()
            code = None
        second.kill()
        second.wait()
        log.seek(0)
        said = log.read()
    fine = code not in (0, None) and re.search(expected, said) is not None
    return "" if fine else f"exit {code}: " + " / ".join(said.strip().split("\n")[-4:])
