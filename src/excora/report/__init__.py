"""The report of a run or a comparison: one self-contained HTML page, made of a record."""

from excora.report.page import page_of_comparison, page_of_explanation, page_of_run, write_page, write_report
from excora.report.records import ComparisonRecord, ExplanationRecord, RunRecord

__all__ = [
    "ComparisonRecord", "ExplanationRecord", "RunRecord", "page_of_comparison", "page_of_explanation", "page_of_run",
    "write_page", "write_report",
]  # fmt: skip
