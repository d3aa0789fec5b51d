"""From rows to cells, and how far a cell is from print."""

from collections.abc import Iterable

import numpy as np

from edge_tvbo.research.experiments.base import Cell, PublishedValue, Row, Summary


def summarise(rows: Iterable[Row]) -> Summary:
    """Give mean, sd and number of runs of each number of each case, in the order they come."""
    values: dict[tuple[str, tuple[tuple[str, str], ...]], list[float]] = {}
    for row in rows:
        for number, value in row.numbers.items():
            values.setdefault((number, tuple(row.case.items())), []).append(value)
    return Summary(
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


def errors_apart(cell: Cell, printed: PublishedValue) -> float | None:
    """Give (ours - theirs) in standard errors of both; None where the paper gives no spread."""
    if printed.sd is None:
        return None
    error = float(np.hypot(cell.error, printed.sd / printed.runs**0.5))
    return (cell.mean - printed.mean) / error if error > 0 else None
