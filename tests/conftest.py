"""Settings of every test: Hypothesis repeats itself, and a slow machine is no failure."""

from hypothesis import settings

settings.register_profile("keyveil", derandomize=True, deadline=None)
settings.load_profile("keyveil")
