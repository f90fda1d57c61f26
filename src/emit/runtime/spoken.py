"""What is said as a phrase of Lockstep's (src/health/phrases.ts): its name, and what stands in its gaps. Pages say it in their own language."""
from typing import Dict, Sequence


def phrase(name: str, **values) -> Dict:
    return {"phrase": name, "values": values}


def listed(numbers: Sequence[int]) -> str:
    """'0, 1 and 3'."""
    *first, last = map(str, numbers)
    return f"{', '.join(first)} and {last}" if first else last
