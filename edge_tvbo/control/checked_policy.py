"""Checked policy: a wrapper that checks the results of a policy from another package."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf, isfinite

from edge_tvbo.errors import SnapshotError
from edge_tvbo.numerics.types import Array, Mask
from edge_tvbo.policy.base import Choice, Policy
from edge_tvbo.policy.built_in import BUILT_IN

_BUILT_IN_NAMES = {str(kind.__struct_config__.tag) for kind in BUILT_IN}


class PolicyFailed(SnapshotError):
    """Error: a policy from another package failed unexpectedly while it read a snapshot.

    The snapshot may be intact: another version of the package may be able to read it.
    """


def checked(policy: Policy) -> "Policy | CheckedPolicy":
    """Return `policy` in a `CheckedPolicy` wrapper, or unchanged if the policy is built in.

    A policy is built in if both its class and its name belong to edge_tvbo. Another package can
    register a class of edge_tvbo under a new name, with a model of that package; such a policy is
    wrapped, too.
    """
    is_ours = type(policy).__module__.partition(".")[0] == "edge_tvbo"
    return policy if is_ours and policy.name in _BUILT_IN_NAMES else CheckedPolicy(policy)


class CheckedPolicy:
    """Wrapper that checks the results of some methods of a policy.

    `Policy` describes the methods. An invalid result raises a `ValueError` that names the policy
    and the wrong value.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def select(self, eligible: Mask | None = None) -> Choice:
        choice = self._policy.select(eligible)
        self._check(choice, eligible)
        return choice

    def select_many(self, k: int, eligible: Mask | None = None) -> tuple[Choice, ...]:
        choices = self._policy.select_many(k, eligible)
        for choice in choices:
            self._check(choice, eligible)
        return choices

    def posterior(self) -> tuple[Array, Array]:
        mean, std = self._policy.posterior()
        shape = (len(self._policy.field.sensors),)
        if not mean.shape == std.shape == shape:
            raise self._error(
                f"has a posterior whose mean and std have the shapes {mean.shape} and {std.shape}; "
                f"both must have the shape {shape}"
            )
        return mean, std

    def snapshot(self) -> bytes:
        snapshot = self._policy.snapshot()
        if type(snapshot) is not bytes:
            found = type(snapshot).__name__
            raise self._error(f"returned a snapshot of type {found}; it must be of type bytes")
        return snapshot

    def restore(self, blob: bytes) -> None:
        with self._failures():
            self._policy.restore(blob)

    def restore_sensors(self, blob: bytes) -> int:
        with self._failures():
            return self._policy.restore_sensors(blob)

    def _check(self, choice: Choice, eligible: Mask | None) -> None:
        if mistake := _mistake(choice, self._policy.field.sensors, eligible):
            raise self._error(mistake)

    def _error(self, mistake: str) -> ValueError:
        return ValueError(f"the policy {self._policy.name!r} {mistake}")

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Convert each exception of the policy, except `SnapshotError`, to `PolicyFailed`.

        A policy that rejects its snapshot raises `SnapshotError`; any other exception is a fault of
        the policy. If this exception were not converted, each start of the daemon would fail until
        the user removes the stored state.
        """
        try:
            yield
        except (SnapshotError, MemoryError):
            raise
        except Exception as error:
            raise PolicyFailed(
                f"The policy {self._policy.name!r} cannot restore its snapshot: "
                f"{type(error).__name__}: {error}."
            ) from error


def _mistake(choice: Choice, sensors: tuple[str, ...], eligible: Mask | None) -> str:
    """Return a text about the first mistake in a policy's choice; "" for a valid choice."""
    if type(choice) is not Choice:
        return f"selected {choice!r}; it must be a Choice"
    arm = choice.arm
    if type(arm) is not int or not 0 <= arm < len(sensors):
        wanted = f"a number of type int, 0 to {len(sensors) - 1}"
        return f"made a choice whose arm is {arm!r}; it must be {wanted}"
    if eligible is not None and not eligible[arm]:
        return f"selected arm {arm}, which is not eligible"
    if choice.sensor != sensors[arm]:
        return (
            f"made a choice whose sensor is {choice.sensor!r}; the name of arm {arm} is "
            f"{sensors[arm]!r}"
        )
    if type(choice.mean) is not float or not isfinite(choice.mean):
        return f"made a choice whose mean is {choice.mean!r}; it must be finite, of type float"
    if type(choice.std) is not float or not 0.0 <= choice.std < inf:
        wanted = "finite and at least 0, of type float"
        return f"made a choice whose std is {choice.std!r}; it must be {wanted}"
    if type(choice.ucb) is not float:
        return f"made a choice whose ucb is {choice.ucb!r}; it must be of type float"
    return ""
