"""Message templates with parameters (src/health/phrases.ts), so that a UI can localize them."""
from typing import Dict, Sequence


def phrase(name: str, **values) -> Dict:
    return {"phrase": name, "values": values}


def listed(numbers: Sequence[int]) -> str:
    """'0, 1 and 3'."""
    *first, last = map(str, numbers)
    return f"{', '.join(first)} and {last}" if first else last
