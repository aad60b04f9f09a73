"""Tests of the pages of judging in a real browser."""
