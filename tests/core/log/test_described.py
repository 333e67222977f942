from semel.core.log.config import FIXED, NAMES
from semel.core.log.described import TOPIC_SETTINGS
from semel.core.log.kept import KEPT


def test_every_setting_is_described() -> None:
    assert set(TOPIC_SETTINGS) == {*NAMES, *FIXED, *KEPT}
