"""The most memory that a process has held, for the cost that is told beside each result."""

import re
import resource
import sys
from pathlib import Path

import torch


def peak_memory_mb() -> float:
    """Peak of what torch allocated on the GPU, where there is one in use; otherwise peak resident memory."""
    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        return torch.cuda.max_memory_allocated() / 2**20
    return peak_resident_mb()


def peak_resident_mb() -> float:
    """Peak resident memory of this process.

    On Linux from /proc, since getrusage still counts the parent's memory from before this process began its own program.
    """
    status = Path("/proc/self/status")
    if status.exists() and (found := re.search(r"VmHWM:\s+(\d+) kB", status.read_text())):
        return int(found[1]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
