"""
Runs generated programs as test/emit_many.py does, and notes which lines of the runtime each of their ranks executes.
    covered.py emit_many.py list.json folder     one file per process in `folder`: {"file": [line, ...]}
"""
import json
import os
import runpy
import sys
import threading

SCRIPT, LIST, FOLDER = sys.argv[1:]
RUNTIME = f"{os.sep}runtime{os.sep}"
lines = {}


def trace(frame, event, _):
    path = frame.f_code.co_filename
    if RUNTIME not in path:
        return None
    found = lines.setdefault(os.path.basename(path), set())
    found.add(frame.f_lineno)

    def within(frame, event, _):
        found.add(frame.f_lineno)
        return within

    return within


def leave(code):
    with open(os.path.join(FOLDER, f"{os.getpid()}.json"), "w") as file:
        json.dump({name: sorted(found) for name, found in lines.items()}, file)
    end(code)


end, os._exit = os._exit, leave  # ranks end by it
threading.settrace(trace)
sys.settrace(trace)
sys.argv = [SCRIPT, LIST]
sys.path.insert(0, os.path.dirname(SCRIPT))
runpy.run_path(SCRIPT, run_name="__main__")
