"""The plans of a folder: its own, and those for other world sizes in ranks-*/."""
import glob
import json
import os
from typing import Dict


def plans_in(folder: str) -> Dict[int, str]:
    """World size -> folder of the program."""
    others = sorted(glob.glob(os.path.join(glob.escape(folder), "ranks-*")))
    return {world_of(place): place for place in (*others, folder)}


def world_of(place: str) -> int:
    with open(os.path.join(place, "program.json")) as file:
        return json.load(file)["world"]


def plan_for(folder: str, world: int) -> str:
    plans = plans_in(folder)
    if world not in plans:
        *most, last = sorted(plans)
        known = f"{', '.join(map(str, most))} or {last}" if most else str(last)
        raise RuntimeError(f"the program is for {known} ranks, but torchrun started {world}")
    return plans[world]
