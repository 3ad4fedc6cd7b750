"""Settings for all tests."""

from hypothesis import HealthCheck, settings

# A slow machine must not fail a test, and the same tree must give the same result twice.
settings.register_profile(
    "no clock", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("no clock")
