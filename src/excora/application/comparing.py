"""``compare``: a comparison, and its page."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from excora import comparison
from excora.comparison import Comparison
from excora.data.dataset import Dataset
from excora.data.reading import Paths
from excora.report import ComparisonRecord, page_of_comparison, write_page, write_report


@functools.wraps(comparison.compare)  # its signature and its words; with an output folder a report.html too
def compare(data: Paths | Dataset, *, output: str | Path | None = None, **options: Any) -> Comparison:
    """As there."""
    found = comparison.compare(data, output=output, **options)
    if output is not None and (Path(output) / "config.json").exists():
        write_report(output)  # a run has the same folder: its page says both
    elif output is not None:
        write_page(Path(output) / "report.html", page_of_comparison(ComparisonRecord.of(found.to_dict())))
    return found
