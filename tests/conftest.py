"""What every test shares."""

from hypothesis import settings

# A numba kernel compiles at its first call, far past Hypothesis's 200 ms.
settings.register_profile("default", deadline=None)
settings.load_profile("default")
