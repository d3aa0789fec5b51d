"""Provenance of a page of results: the commit and the machine."""

import os
import platform
import subprocess
from pathlib import Path


def commit(page):
    """Return the commit; a `+` means changes, except of `page`, that are not committed."""

    def git(*words):
        done = subprocess.run(["git", *words], cwd=page.parent, capture_output=True, text=True)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", ":/", f":(exclude){page.name}")
    return git("rev-parse", "--short", "HEAD") + "+" * bool(changed)


def machine():
    """Return the processor and the Python version."""
    cpu = Path("/proc/cpuinfo").read_text("utf-8").partition("model name\t: ")[2]
    model = cpu.partition("\n")[0] or platform.machine()
    return f"{os.cpu_count()} × {model}, Python {platform.python_version()}"
