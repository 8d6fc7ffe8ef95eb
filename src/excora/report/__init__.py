"""The report of a run or a comparison: one self-contained HTML page."""

from excora.report.page import write_report

__all__ = ["write_report"]
