"""Checks of what a policy returns: a policy of another package may return anything."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf, isfinite

from edge_tvbo.errors import SnapshotError
from edge_tvbo.numerics.types import Array, Mask
from edge_tvbo.policy.base import Choice, Policy


def check_choice(choice: Choice, policy: Policy, eligible: Mask | None) -> Choice:
    """Return `choice`, which `policy` has selected.

    Raises
    ------
    ValueError
        If the choice cannot be activated or published.
    """
    sensors = policy.field.sensors
    if (
        type(choice) is Choice
        and type(arm := choice.arm) is int
        and 0 <= arm < len(sensors)
        and (eligible is None or eligible[arm])
        and choice.sensor == sensors[arm]
        and type(choice.mean) is type(choice.std) is type(choice.ucb) is float
        and isfinite(choice.mean)
        and 0.0 <= choice.std < inf
    ):
        return choice
    raise ValueError(f"the policy {policy.name!r} {_mistake(choice, policy, eligible)}")


def check_posterior(posterior: tuple[Array, Array], policy: Policy) -> tuple[Array, Array]:
    """Return the `posterior` of `policy`; raise `ValueError` if its shape is wrong."""
    mean, std = posterior
    shape = (len(policy.field.sensors),)
    if mean.shape == std.shape == shape:
        return posterior
    raise ValueError(
        f"the policy {policy.name!r} has a posterior whose mean and std have the shapes "
        f"{mean.shape} and {std.shape}; both must have the shape {shape}"
    )


def check_snapshot(snapshot: bytes, policy: Policy) -> bytes:
    """Return the `snapshot` of `policy`; raise `ValueError` if it could not be restored."""
    if type(snapshot) is bytes:
        return snapshot
    found = type(snapshot).__name__
    raise ValueError(
        f"the policy {policy.name!r} returned a snapshot of type {found}; it must be of type bytes"
    )


@contextmanager
def snapshot_errors(policy: Policy) -> Iterator[None]:
    """Raise `SnapshotError` if a `policy` of another package raises any other exception.

    The field then starts without readings. With another exception, no daemon could start until its
    state is removed. A built-in policy raises another exception only if the memory is used up, and
    this must not discard its snapshot.
    """
    is_built_in = type(policy).__module__.partition(".")[0] == "edge_tvbo"
    try:
        yield
    except (SnapshotError, MemoryError):
        raise
    except Exception as error:
        if is_built_in:
            raise
        raise SnapshotError(
            f"The policy {policy.name!r} cannot restore its snapshot: "
            f"{type(error).__name__}: {error}."
        ) from error


def _mistake(choice: Choice, policy: Policy, eligible: Mask | None) -> str:
    """Return the first mistake in an invalid choice of `policy`."""
    if type(choice) is not Choice:
        return f"selected {choice!r}; it must be a Choice"
    arm, sensors = choice.arm, policy.field.sensors
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
    return f"made a choice whose ucb is {choice.ucb!r}; it must be of type float"
