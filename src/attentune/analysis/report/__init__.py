"""The interactive report: runs side by side in one file that opens from disk and asks the network for nothing."""

from attentune.analysis.report.arms import Answer, Arm, Example, in_order_of_interest
from attentune.analysis.report.packing import largest_error, quantised, restored
from attentune.analysis.report.page import Report, make_report
from attentune.analysis.report.verdict import Verdict, judge

__all__ = [
    "Answer",
    "Arm",
    "Example",
    "Report",
    "Verdict",
    "in_order_of_interest",
    "judge",
    "largest_error",
    "make_report",
    "quantised",
    "restored",
]
