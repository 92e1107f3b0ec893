"""The memory of this process."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path


def resident_bytes() -> int:
    """Return the memory that this process holds; where that is not to be had, the most so far."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
