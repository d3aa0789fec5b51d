"""GLR-GP-UCB: GP-UCB that resets when a test finds a change in the readings of an arm.

Source: Besson, Kaufmann, Maillard & Seznec, *Efficient Change-Point Detection for Tackling
Piecewise-Stationary Bandits*, JMLR 2022: the algorithm GLR-klUCB with global restarts. Here, GP-UCB
replaces kl-UCB.
"""

from msgspec.structs import replace

from edge_tvbo.models.arm_space import Arm, Field
from edge_tvbo.models.beta import beta_schedule
from edge_tvbo.models.change_detector import ChangeDetector
from edge_tvbo.models.facts import PolledInTurn
from edge_tvbo.models.posteriors.select import make_posterior
from edge_tvbo.models.snapshot import State
from edge_tvbo.models.temporal_models import Static
from edge_tvbo.numerics.types import Mask
from edge_tvbo.policy.argument_checks import counts_intervals
from edge_tvbo.policy.base import Choice, ObserveResult
from edge_tvbo.policy.change_detection_settings import GlrGpUcbSettings
from edge_tvbo.policy.upper_confidence import SkippingUpperConfidence


class ChangeDetecting(SkippingUpperConfidence):
    """GLR-GP-UCB: GP-UCB that tests each arm's replies for a change, and regularly polls all arms.

    This is algorithm 1 of Besson et al. 2022 with global restarts, on top of GP-UCB.

    Time is divided into blocks of ⌊M / `exploration`⌋ intervals. In the last M intervals of a
    block, the M arms are polled in turn. In the other intervals, and if the arm to be polled is not
    eligible, the arm with the highest bound is selected. If a reply shows a change, the model and
    the tests are reset, and the reply is discarded.

    In the paper, the arms are polled in the first M intervals of a block. GP-UCB profits less from
    that order.
    """

    def __init__(self, settings: GlrGpUcbSettings, field: Field) -> None:
        posterior = make_posterior(field, Static(), settings.window)
        width = beta_schedule(settings.beta)
        super().__init__(settings.name, field, posterior, width, seed=settings.seed)
        M = len(field)
        self._detector = ChangeDetector(
            M, field.noise_variance, settings.delta, settings.test_window
        )
        self._round = int(M / settings.exploration) if settings.exploration else 0

    def observe(self, arm: Arm, y: float) -> ObserveResult:
        """Update GLR-GP-UCB with a reading; if the reading is a reply, test for a change."""
        is_reply = arm in self._selected
        result = super().observe(arm, y)
        if is_reply and self._detector.detects(self.field.index(arm), y):
            self.reset()
            return ObserveResult(True, result.abs_error, None, result.age)
        return result

    def advance(self, dt: float = 1.0) -> None:
        """End the current interval of the change-detecting policy GLR-GP-UCB.

        Raises `ValueError` unless `dt` is 1, because each arm is polled for one interval.
        """
        if dt != 1.0:
            raise counts_intervals(self.name, dt)
        super().advance()

    def reset(self) -> None:
        """Reset GLR-GP-UCB: discard all readings of the model and of the change tests."""
        super().reset()
        self._detector.clear()

    def _state(self) -> State:
        """Return the state of GLR-GP-UCB: the state of GP-UCB and the state of the change tests."""
        return {**super()._state(), **self._detector.arrays}

    def _load(self, state: State) -> None:
        """Load the states of GP-UCB and its change tests; if one is invalid, load nothing."""
        self._detector.check_state(state)
        super()._load(state)
        self._detector.restore_state(state)

    def _best_choice(self, eligible: Mask) -> Choice | None:
        due = self._arm_due()
        if due is None or self._replies or not eligible[due]:
            return super()._best_choice(eligible)
        choice = self._choice(self._posterior.at(self.field.arm(due)), self._width())
        return replace(choice, same_width=False, turn=PolledInTurn(self._round))

    def _arm_due(self) -> int | None:
        """Return the index of the arm that GLR-GP-UCB polls in this interval, or None."""
        if not self._round:
            return None
        due = self._time % self._round - (self._round - len(self.field))
        return due if due >= 0 else None
