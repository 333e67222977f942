from __future__ import annotations

import pytest

from semel.core.dynamic_config.group import GROUP_SETTINGS, wrong_with


@pytest.mark.parametrize("name", GROUP_SETTINGS)
def test_a_setting_takes_its_default(name: str) -> None:
    assert wrong_with(name, GROUP_SETTINGS[name].default) is None


def test_a_refusal_names_the_setting_and_what_is_wrong() -> None:
    assert wrong_with("consumer.session.timeout.ms", "5") == (
        "consumer.session.timeout.ms: 5 is not within 45000 to 60000"
    )
    assert wrong_with("session.timeout.ms", "50000") == "session.timeout.ms: unknown group setting"
