"""Audit: what each common script would have printed for the same codes, beside the exact expectation."""

from lookalike.evaluation.audit.audit import Audit, AuditRow, audit
from lookalike.evaluation.audit.verdict import Candidate, Verdict

__all__ = ["Audit", "AuditRow", "Candidate", "Verdict", "audit"]
