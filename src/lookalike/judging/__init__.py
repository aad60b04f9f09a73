"""Judging: experts say of pairs, in their browsers, whether they look alike, and every answer is kept."""
