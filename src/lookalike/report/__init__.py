"""Reports as HTML files: hashers compared, a leaderboard, a collection, the results of a search."""

from lookalike.report.hashers import render, write_report
from lookalike.report.installed import check_installed

__all__ = ["check_installed", "render", "write_report"]
