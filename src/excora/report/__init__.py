"""The report of a run or a comparison: one self-contained HTML page, made of a record."""

from excora.report.page import page_of_comparison, page_of_run, write_page, write_report
from excora.report.records import ComparisonRecord, RunRecord

__all__ = ["ComparisonRecord", "RunRecord", "page_of_comparison", "page_of_run", "write_page", "write_report"]
