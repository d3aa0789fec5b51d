"""Distribution of the tests over the processes of pytest-xdist."""

from xdist.scheduler import LoadScopeScheduling

# These wait for brokers, clocks and processes. Their files would outlast all others, and their
# fixtures cost little, so each test goes to the process that is free.
SPLIT = (
    "tests/broker/",
    "tests/cli/",
    "tests/docs/",
    "tests/faults/",
    "tests/test_demonstrations.py",
)


class ByFileOrTest(LoadScopeScheduling):
    """A scheduler that keeps a file's tests together, except in the folders of `SPLIT`."""

    def __init__(self, config, log=None):
        super().__init__(config, log)
        config.option.loadscopereorder = False  # `support.marks` has brought the longest forward

    def _split_scope(self, nodeid):
        return nodeid if nodeid.startswith(SPLIT) else nodeid.split("::", 1)[0]
