"""Policy settings: the base struct of a policy's parameters, and the types that policies share.

Each policy has one frozen struct with its parameters, their ranges and defaults. These structs are
the only definition of a policy's parameters. `make_policy`, the configuration file, `edge-tvbo
config explain`, the JSON schema and docs/configuration.md all read them. A value is checked once:
when the configuration is decoded, or when the value is passed to `make_policy`. The maker, which is
the function that builds the policy, does not check the struct again. The modules of settings do not
import numpy, so that a configuration is checked quickly.

A new policy needs a module with a maker. The policy also needs a struct in one of the modules that
`built_in` imports, and a line in the tuple at the end of the struct's module. A policy of another
package has its struct in that package. Such a policy needs an entry point in the group
``edge_tvbo.policies`` that refers to the struct.

The structs cite papers: [B16] Bogunovic, Scarlett & Cevher 2016; [ET] Brunzema et al.,
event-triggered time-varying Bayesian optimization; [LB] Ziomek, Adachi & Osborne 2024; [M24] Mandl
2024; [ZS21] Zhou & Shroff 2021. Full titles are in docs/references.md.
"""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

import msgspec
from msgspec import Meta

from edge_tvbo.models.beta import LogBeta

Positive = Annotated[float, Meta(gt=0)]
Probability = Annotated[float, Meta(gt=0, lt=1)]
Count = Annotated[int, Meta(ge=1)]
WindowLength = Annotated[int, Meta(ge=1, le=4096)]
Share = Annotated[float, Meta(ge=0, le=1)]

if TYPE_CHECKING:  # in Python, the parameter `beta` may also be any schedule object
    from edge_tvbo.models.beta import BetaSchedule

    BetaValue = float | BetaSchedule
else:
    BetaValue = Positive | LogBeta

BETA_HELP = (
    "Exploration weight: a constant, or c1 · ln(c2 · t) in interval t, with c1 and c2 above 0. "
    "A larger weight explores more. The width of the bound is the square root of this weight."
)
Beta = Annotated[BetaValue, Meta(description=BETA_HELP)]
BetaOrAgnostic = Annotated[
    BetaValue | None,
    Meta(
        description=f"{BETA_HELP} If `beta` is not set, the width is 1 + σ √(2(γ + 1 + ln 10)), "
        "with the standard deviation σ of the noise and the information gain γ of the readings. "
        "This width is called the agnostic width."
    ),
]
WINDOW_COST = (
    "After a restart of the daemon, the model is computed again from these readings. The processor "
    "time of this computation grows with the cube of `window`: 4096 readings take 3 s on a PC, and "
    "longer on a gateway. The computation needs 0.4 GB of memory for 4096 readings, and 0.1 GB for "
    "2048 readings. With some policies, the processor time of each interval grows with the cube of "
    "`window`, too. With the other policies, only one in `window` intervals takes as long as a "
    "restart."
)
Window = Annotated[
    WindowLength | None,
    Meta(
        description="Number of newest readings that the model keeps. If no number is set, the "
        "model keeps all readings (in a continuous domain, `BoxField`: the newest 256). "
        f"{WINDOW_COST}"
    ),
]
FitWindow = Annotated[
    WindowLength | None,
    Meta(
        description="Number of newest readings that the model keeps. If no number is set, a model "
        "with a fitted parameter keeps 200 readings, and any other model keeps all readings (in a "
        f"continuous domain, `BoxField`: 256). {WINDOW_COST}"
    ),
]
KeptReadings = Annotated[
    WindowLength,
    Meta(description=f"Number of newest readings that the model keeps. {WINDOW_COST}"),
]


class Conflict(NamedTuple):
    """Two parameters whose values are allowed separately, but not together."""

    parameter: str  # parameter for which the error is reported
    problem: str  # text after the parameter's name, such as "is 9; allowed: at most n_upper (8)"


class UnusedParameter(NamedTuple):
    """A parameter that has no effect, because of the values of other parameters."""

    parameter: str
    reason: str  # text after "because", such as "beta is set"


class PolicySettings(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="name", forbid_unknown_fields=True
):
    """Parameters of one policy; the tag of the struct is the registered name of the policy.

    Attributes
    ----------
    maker : str
        Name of the function or class that builds the policy, ``"package.module:function"``. It
        is called with the settings and the field, and returns a `Policy`.
    needs_positions : bool
        Whether the policy needs sensor positions, to learn how fast the field changes in space.
    has_model : bool
        Whether the policy estimates the sensors with a model of the field.
    """

    maker: ClassVar[str]
    needs_positions: ClassVar[bool] = False
    has_model: ClassVar[bool] = True

    seed: Annotated[
        int,
        Meta(
            ge=0,
            le=2**63 - 1,
            description="Seed of the random draws, such as those that break ties.",
        ),
    ] = 0

    @property
    def name(self) -> str:
        """The registered name of the policy with these settings."""
        return str(self.__struct_config__.tag)

    @property
    def learns_length_scale(self) -> bool:
        """Whether the policy learns the length scale.

        Such a policy uses the variance of the kernel, and ignores the rest of the kernel.
        """
        return self.needs_positions

    def conflicts(self) -> Iterator[Conflict]:
        """Yield a conflict for each pair of the policy's settings that contradict each other."""
        yield from ()

    def unused(self) -> Iterator[UnusedParameter]:
        """Yield each parameter that has no effect because of the policy's other parameters.

        Such a parameter is not an error. If the user has set the parameter, the configuration warns
        of it.
        """
        yield from ()

    def field_conflicts(self, sensors: Collection[str], has_positions: bool) -> Iterator[Conflict]:
        """Yield a conflict for each setting that a field with these `sensors` does not allow."""
        if self.needs_positions and not has_positions:
            yield Conflict(
                "name",
                f'is "{self.name}", which learns how the field changes in space; add'
                ' positions = { id = [x, y], ... }, or choose another policy, such as "auto"',
            )
