"""Statistics of experiments: means over runs, and their differences from published values."""

from collections.abc import Iterable

import numpy as np

from edge_tvbo.research.experiments.base import Cell, PublishedValue, ResultTable, Row


def summarise(rows: Iterable[Row]) -> ResultTable:
    """Return a table of `rows`, with the mean and the sd over the runs for each number and case."""
    values: dict[tuple[str, tuple[tuple[str, str], ...]], list[float]] = {}
    for row in rows:
        for number, value in row.numbers.items():
            values.setdefault((number, tuple(row.case.items())), []).append(value)
    return ResultTable(
        [
            Cell(
                dict(case),
                number,
                float(np.mean(each)),
                float(np.std(each, ddof=1)) if len(each) > 1 else 0.0,
                len(each),
            )
            for (number, case), each in values.items()
        ]
    )


def standard_errors_apart(cell: Cell, published: PublishedValue) -> float | None:
    """Return the difference between a cell and the published value, in standard errors.

    The standard error is that of the difference. The result is None if the paper states no standard
    deviation, or if the standard error is 0.
    """
    if published.sd is None:
        return None
    error = float(np.hypot(cell.error, published.sd / published.runs**0.5))
    return (cell.mean - published.mean) / error if error > 0 else None
