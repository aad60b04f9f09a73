"""Relevance, counting, metrics of counts, results and their comparison."""
