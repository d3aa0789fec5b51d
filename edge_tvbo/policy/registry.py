"""Policy registry: finds built-in policies and policies of other packages by name.

A package adds a policy with an entry point in the group ``edge_tvbo.policies``. The name of the
entry point is the name of the policy, and the entry point refers to the policy's `PolicySettings`
struct. Installed packages are searched only if a name is not built in, or if all names are listed.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import msgspec

from edge_tvbo.errors import ConfigError, hint
from edge_tvbo.messages.declared_types import allowed_values, convert
from edge_tvbo.plugins import Registry
from edge_tvbo.policy.built_in import BUILT_IN
from edge_tvbo.policy.settings import PolicySettings

if TYPE_CHECKING:
    from edge_tvbo.models.arm_space import Field
    from edge_tvbo.policy.base import Policy

_BUILT_IN = {str(kind.__struct_config__.tag): kind for kind in BUILT_IN}
_POLICIES = Registry(
    "policies", {name: f"{kind.__module__}:{kind.__name__}" for name, kind in _BUILT_IN.items()}
)


def policies() -> tuple[str, ...]:
    """Return the names of all policies, the built-in ones first.

    Returns
    -------
    tuple of str
        Every name that `make_policy` and a configuration file accept.

    Examples
    --------
    >>> from edge_tvbo import policies
    >>> "et-gp-ucb" in policies()
    True
    """
    return (*_BUILT_IN, *(name for name in _POLICIES if name not in _BUILT_IN))


def needing_positions() -> tuple[str, ...]:
    """Return the names of the policies that learn a length scale from sensor positions.

    Policies whose package cannot be loaded are left out.
    """
    return tuple(
        str(kind.__struct_config__.tag) for kind in loadable_settings() if kind.needs_positions
    )


def find_settings_class(name: str) -> type[PolicySettings] | None:
    """Return the settings struct of the policy `name`, or None if there is no such policy.

    Raises
    ------
    ConfigError
        If the package that registers `name` cannot be loaded.
    """
    if (built_in := _BUILT_IN.get(name)) is not None:
        return built_in
    return _load(name) if name in _POLICIES else None


def settings_class(name: str) -> type[PolicySettings]:
    """Return the settings struct of the policy `name`; raise `ConfigError` for unknown names."""
    kind = find_settings_class(name)
    if kind is None:
        known = policies()
        raise ConfigError(
            f"There is no policy {name!r}; allowed: {', '.join(known)}.{hint(name, known)}"
        )
    return kind


def loadable_settings() -> Iterator[type[PolicySettings]]:
    """Yield the settings struct of each policy, except policies whose package cannot be loaded."""
    for name in policies():
        with suppress(ConfigError):
            yield settings_class(name)


@cache
def parameters_of(kind: type[PolicySettings]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Return a registered policy's parameters; parameters common to all policies are last."""
    shared = PolicySettings.__struct_fields__
    return tuple(sorted(msgspec.structs.fields(kind), key=lambda one: one.name in shared))


def make_policy(name: str, field: "Field", /, **parameters: Any) -> "Policy":
    """Build the policy `name` for a field.

    On a `SensorField`, the policy's readings and predictions are in model units. On a `BoxField`,
    both are in the unit of the field, and with ``objective="min"`` the policy searches for the
    lowest reading. `BoxPolicy` has the details.

    Parameters
    ----------
    name : str
        A registered name; `policies` lists them.
    field : SensorField or BoxField
        The arms, their prior covariance and the noise variance.
    **parameters
        Parameters of the policy, such as ``delta_b=0.1``. Each field of the policy's settings
        struct is a parameter. The value of `beta` can also be a schedule object, such as
        ``LogBeta(0.8, 0.4)``.

    Returns
    -------
    Policy
        Policy with the methods `select`, `observe` and `advance`.

    Raises
    ------
    ConfigError
        If the name or a parameter is unknown, a value is out of range, or the policy does not
        support the field. The error lists all wrong parameters.

    Examples
    --------
    >>> from edge_tvbo import SensorField, make_policy
    >>> field = SensorField(("a", "b"), [[1, 0.5], [0.5, 1]], noise_variance=0.01)
    >>> policy = make_policy("et-gp-ucb", field, delta_b=0.1, seed=1)
    >>> choice = policy.select()
    >>> policy.observe(choice.arm, 0.3).reset
    False
    >>> policy.advance()
    """
    settings = read_settings(settings_class(name), parameters)
    from edge_tvbo.models.arm_space import Field
    from edge_tvbo.policy.box_policy import in_field_units

    if not isinstance(field, Field):
        kind = type(field).__name__
        raise ConfigError(f"field is of the type {kind}; it must be a SensorField or a BoxField.")
    return in_field_units(build_policy(settings, field), getattr(settings, "window", 0))


def build_policy(settings: PolicySettings, field: "Field") -> "Policy":
    """Build the policy from checked settings, such as those that `read_settings` returns.

    Raises
    ------
    ConfigError
        If the policy does not support the field.
    """
    module, _, function = settings.maker.partition(":")
    policy: Policy = getattr(import_module(module), function)(settings, field)
    return policy


def read_settings(kind: type[PolicySettings], parameters: Mapping[str, Any]) -> PolicySettings:
    """Return the settings struct of a policy from keyword arguments.

    If arguments are wrong, a `ConfigError` that lists all mistakes is raised.

    >>> from edge_tvbo.policy.gp_settings import TvGpUcbSettings
    >>> read_settings(TvGpUcbSettings, {"epsilon": 0.01}).epsilon
    0.01
    """
    declared = {one.name: one.type for one in parameters_of(kind)}
    name, checked, mistakes = kind.__struct_config__.tag, {}, []
    for key, value in parameters.items():
        if key not in declared:
            known = f"its parameters are {', '.join(declared)}.{hint(key, declared)}"
            mistakes.append(f"{name} has no parameter {key!r}; {known}")
        elif key == "beta" and hasattr(value, "width"):  # a schedule object
            checked[key] = value
        else:
            try:
                checked[key] = _checked(_plain(value), declared[key])
            except ValueError:
                mistakes.append(f"{key} is {value!r}; allowed: {allowed_values(declared[key])}.")
    if not mistakes:
        settings = kind(**checked)
        mistakes = [f"{key} {problem}." for key, problem in settings.conflicts()]
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return settings


def _plain(value: Any) -> Any:
    """Convert a policy's parameter, such as a numpy scalar, to a Python int, float or str."""
    match value:
        case bool():
            return value
        case Integral():
            return int(value)
        case Real():
            return float(value)
        case str():
            return str(value)
    return value


def _checked(value: Any, declared: Any) -> Any:
    """Convert `value` to the declared type of a policy parameter, or raise `ValueError`."""
    converted = convert(value, declared)
    # Whole numbers stay int: snapshots of earlier versions contain the text tau=5, not tau=5.0.
    return value if type(value) is int else converted


def _load(name: str) -> type[PolicySettings]:
    """Load a registered policy's settings struct from another package, or raise `ConfigError`."""
    found = f"{name!r} among the policies of installed packages cannot be loaded"
    kind = _POLICIES.load(name)
    if not (isinstance(kind, type) and issubclass(kind, PolicySettings)):
        raise ConfigError(f"{found}: {kind!r} is not a subclass of PolicySettings.")
    if not hasattr(kind, "maker"):
        raise ConfigError(f"{found}: {kind.__name__} has no attribute `maker`.")
    if (tag := kind.__struct_config__.tag) != name:
        raise ConfigError(f"{found}: the tag of {kind.__name__} is {tag!r}; it must be {name!r}.")
    return kind
