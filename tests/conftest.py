"""Settings of all tests."""

from hypothesis import settings

settings.register_profile("lookalike", deadline=None)  # the first call compiles, and machines are shared
settings.load_profile("lookalike")
