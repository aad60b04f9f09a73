"""The page of `lookalike look`."""
