"""Tests of the store of judging."""
