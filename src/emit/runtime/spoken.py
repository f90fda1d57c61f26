"""What is said as a phrase of Lockstep's (src/health/phrases.ts): its name, and what stands in its gaps. Pages say it in their own language."""
from typing import Dict


def phrase(name: str, **values) -> Dict:
    return {"phrase": name, "values": values}
