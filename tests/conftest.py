"""Settings for all tests."""

from hypothesis import settings

settings.register_profile("no timed assertions", deadline=None)
settings.load_profile("no timed assertions")
