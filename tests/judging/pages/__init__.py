"""Tests of the pages of judging, without a browser."""
