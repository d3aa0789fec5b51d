"""Built-in policies: the settings struct of each built-in policy, and the default policy."""

from edge_tvbo.policy.auto_settings import TRAINED, AutoSettings
from edge_tvbo.policy.baseline_settings import BASELINES
from edge_tvbo.policy.change_detection_settings import CHANGE_DETECTION
from edge_tvbo.policy.gp_settings import GIVEN_LENGTH_SCALE, WDboSettings
from edge_tvbo.policy.length_scale_settings import LEARNED_LENGTH_SCALE
from edge_tvbo.policy.settings import PolicySettings

BUILT_IN: tuple[type[PolicySettings], ...] = (
    *TRAINED,
    *GIVEN_LENGTH_SCALE,
    *LEARNED_LENGTH_SCALE,
    WDboSettings,
    *CHANGE_DETECTION,
    *BASELINES,
)
DEFAULT_POLICY = AutoSettings()  # used if a configuration names no policy
