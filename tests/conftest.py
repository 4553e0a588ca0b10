"""What holds for all tests."""

from hypothesis import settings

# How long an example takes says more of the machine than of the code; what costs claims are
# made of is counted, not timed. A hang is caught by faulthandler_timeout.
settings.register_profile("eventlog", deadline=None)
settings.load_profile("eventlog")
