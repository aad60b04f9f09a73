"""Tests of `lookalike look`."""
