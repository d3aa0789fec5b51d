"""Numbers of Hypothesis's examples: those that a test states, and fewer in ``make unit``."""

from hypothesis import settings


def max_examples(number, **options):
    """Return settings with at most `number` examples; ``make unit`` draws at most its few.

    A profile of Hypothesis alone only replaces the number of the tests that state none.
    """
    few = settings.default.max_examples
    is_quick = few < settings.get_profile("default").max_examples
    return settings(max_examples=min(number, few) if is_quick else number, **options)
