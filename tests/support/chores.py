"""Small jobs for tests of executors; other processes import them by name from this module."""

import os
import time

from edge_tvbo.errors import DataError, MissingExtra


def square(number):
    return number * number


def square_after_a_while(number):
    time.sleep(0.1)
    return os.getpid(), number * number


def data_are_missing(number):
    raise DataError("/data: there is no such file or directory.")


def package_is_missing(number):
    raise MissingExtra("scipy", "science")


def never_return(number):
    while True:
        time.sleep(60)


class AddWithRecording:
    """A function with a large recording, which counts how often it is pickled."""

    def __init__(self):
        self.recording = bytes(10_000_000)
        self.pickled = 0

    def __call__(self, number):
        return number + len(self.recording)

    def __getstate__(self):
        self.pickled += 1
        return self.__dict__


def die(number):
    os._exit(1)
