"""
Python programs as copies of this process, which has loaded torch and compiled what emitted runs have in common, whose folder is
its argument: both take longer than what most of them do.
Reads a line of JSON for each: {"args": as after `python`, "cwd": ..., "env": {...}, "into": FOLDER}, where `out` and `err` of
that folder take what is printed. Writes {"into": ..., "pid": n} when one has started and {"into": ..., "code": n} when
it has ended, -9 being signal 9. It ends when nothing more can be read, and so do they.
"""
import _imp
import importlib.machinery
import json
import os
import runpy
import select
import signal
import sys

import torch  # noqa: F401
import torch._dynamo  # noqa: F401 - custom operations load it when first called: every copy would
import torch.distributed  # noqa: F401

LOOK_SECONDS = 0.02


def remember(folder):
    """Sources that are imported from another place with the same text are not compiled again."""
    loader = importlib.machinery.SourceFileLoader
    compile_source, known = loader.source_to_code, {}
    for name in os.listdir(folder):
        if name.endswith(".py"):
            with open(os.path.join(folder, name), "rb") as file:
                source = file.read()
            known[source] = compile(source, name, "exec", dont_inherit=True)

    def source_to_code(self, data, path, **options):
        code = known.get(bytes(data))
        if code is None:
            return compile_source(self, data, path, **options)
        _imp._fix_co_filename(code, path)
        return code

    loader.source_to_code = source_to_code


def tell(**what):
    os.write(1, (json.dumps(what) + "\n").encode())


def become(asked):
    """This process is from here on as if Python had been started with these arguments."""
    for target, name in ((1, "out"), (2, "err")):
        file = os.open(os.path.join(asked["into"], name), os.O_WRONLY | os.O_CREAT)
        os.dup2(file, target)
        os.close(file)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(asked["cwd"])
    os.environ.update(asked["env"])
    first, *rest = asked["args"]
    sys.path.insert(0, asked["cwd"])
    if first == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = [first, *rest]
        runpy.run_path(first, run_name="__main__")


def reap(running):
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            tell(into=running.pop(pid), code=os.waitstatus_to_exitcode(status))


def serve():
    """Returns in every copy, with what it was asked."""
    running, text = {}, b""
    while True:
        reap(running)
        if not select.select([0], [], [], LOOK_SECONDS)[0]:
            continue
        more = os.read(0, 65536)
        if not more:
            for pid in running:
                os.kill(pid, signal.SIGKILL)
            return None
        *lines, text = (text + more).split(b"\n")
        for line in lines:
            asked = json.loads(line)
            pid = os.fork()
            if pid == 0:
                return asked
            running[pid] = asked["into"]
            tell(into=asked["into"], pid=pid)


remember(sys.argv[1])
# An interrupt of the terminal ends copies; whoever started this process ends it.
signal.signal(signal.SIGINT, signal.SIG_IGN)
asked = serve()
if asked:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    become(asked)
