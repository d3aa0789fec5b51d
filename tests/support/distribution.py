"""Distribution of the tests over the processes of pytest-xdist."""

from xdist.scheduler import LoadScopeScheduling

# These tests wait for brokers, clocks and processes. Their files would take longer than all others,
# and their fixtures cost little, so each test goes to the next free process.
SPLIT = (
    "tests/broker/",
    "tests/cli/",
    "tests/docs/",
    "tests/faults/",
    "tests/test_demonstrations.py",
)
WHOLE = (  # files whose tests share what takes seconds
    "tests/broker/test_other_brokers.py",
    "tests/docs/test_contributing.py",
    "tests/docs/test_site.py",
    "tests/faults/test_attacker.py",
)


class ByFileOrTest(LoadScopeScheduling):
    """A scheduler that keeps a file's tests together, except in `SPLIT`.

    The first process begins with the last files, which compute, while the others wait.
    """

    def __init__(self, config, log=None):
        super().__init__(config, log)
        config.option.loadscopereorder = False  # `support.marks` has brought the longest forward

    def _assign_work_unit(self, node):
        if node is self.nodes[0]:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)

    def _split_scope(self, nodeid):
        if nodeid.startswith(SPLIT) and not nodeid.startswith(WHOLE):
            return nodeid
        return nodeid.split("::", 1)[0]
