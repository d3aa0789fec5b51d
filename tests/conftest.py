"""What every test shares.

`pytest` looks for new counterexamples in every run; `make test` tries the same examples on every
machine, so that what it says is about the change.
"""

from hypothesis import settings

# A numba kernel compiles at its first call, far past Hypothesis's 200 ms.
settings.register_profile("default", deadline=None)
settings.register_profile("repeatable", settings.get_profile("default"), derandomize=True)
settings.load_profile("default")
