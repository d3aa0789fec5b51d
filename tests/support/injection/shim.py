"""Faults of system calls and of memory, by a library that is preloaded into a Python process."""

import ctypes
import errno
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("faults.c")
NEVER = 2**60  # a call with this number is not reached


class Mode(NamedTuple):
    """Fault of the n-th system call, and of all later ones if it is `sticky`."""

    name: str
    error: int = 0
    sticky: bool = False
    short: bool = False  # half of the bytes are transferred, without an error


MODES = (
    Mode("ENOSPC", errno.ENOSPC),
    Mode("ENOSPC from then on", errno.ENOSPC, sticky=True),
    Mode("EIO", errno.EIO),
    Mode("EIO from then on", errno.EIO, sticky=True),
    Mode("EINTR", errno.EINTR),  # for ever, it would be retried for ever
    Mode("short", short=True),
    Mode("short from then on", sticky=True, short=True),
)


def environment(directory):
    """Return the environment in which faults can be injected; None without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = directory / "faults.so"
    words = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run([compiler, *words], check=True, capture_output=True)
    return os.environ | {"LD_PRELOAD": str(library)}


class Faults:
    """The faults of this process, into which the library is preloaded."""

    def __init__(self):
        self._library = ctypes.CDLL(None)
        self._library.faults_failed.restype = ctypes.c_char_p
        self._library.faults_arm_calls.argtypes = (ctypes.c_long, *[ctypes.c_int] * 3)
        self._library.faults_arm_allocations.argtypes = (ctypes.c_long,)
        self._library.faults_disarm.restype = ctypes.c_long

    def watch(self, directory):
        """Count the calls on files in `directory` alone."""
        self._library.faults_watch(os.fsencode(directory))

    def arm(self, number, mode):
        self._library.faults_arm_calls(number, mode.error, mode.sticky, mode.short)

    def arm_allocations(self, number):
        self._library.faults_arm_allocations(number)

    def disarm(self):
        """Let no further call fail; return the number of calls since `arm`."""
        return self._library.faults_disarm()

    @property
    def failed(self):
        """Name of the function that failed."""
        return self._library.faults_failed().decode()

    @property
    def open_files(self):
        return self._library.faults_open()
