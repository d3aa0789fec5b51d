"""Hypothesis's examples: how many, fewer in ``make unit``; and cases that share them."""

from contextlib import contextmanager

from hypothesis import settings


def max_examples(number, **options):
    """Return settings with at most `number` examples; ``make unit`` draws at most its few.

    A profile of Hypothesis alone only replaces the number of the tests that state none.
    """
    few = settings.default.max_examples
    is_quick = few < settings.get_profile("default").max_examples
    return settings(max_examples=min(number, few) if is_quick else number, **options)


@contextmanager
def naming(case):
    """Add the case to the traceback of an error, if several cases share an example."""
    try:
        yield
    except BaseException as error:  # such as that of `pytest.raises`
        error.add_note(f"case: {case}")
        raise
