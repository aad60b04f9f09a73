"""Pages that a server gives to a browser: what all of them share, and `lookalike look`."""
