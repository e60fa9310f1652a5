"""What holds for every test."""

from hypothesis import settings

settings.register_profile("tests", deadline=None)
"""A busy machine is no fault of an example; what hangs is ended by pytest's timeout."""
settings.load_profile("tests")
