"""Settings of all tests."""

import signal

from hypothesis import settings

settings.register_profile("lookalike", deadline=None)  # the first call compiles, and machines are shared
settings.load_profile("lookalike")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # by a shell that began this in the background: processes that
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests stop by Ctrl-C would never hear it
