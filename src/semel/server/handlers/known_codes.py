"""Error codes as clients of the version at hand know them, where they know another than what happened."""

from __future__ import annotations

from typing import Final

from semel.errors import ErrorCode

_NEVER: Final = 2**15  # no version is as high


def as_known(
    code: ErrorCode, api_version: int, *, fenced_from: int = _NEVER, abortable_from: int = _NEVER
) -> ErrorCode:
    """``fenced_from``: the first version that has PRODUCER_FENCED (KIP-588), which is INVALID_PRODUCER_EPOCH before;
    ``abortable_from``: the first by whose TRANSACTION_ABORTABLE a client ends its transaction (KIP-890), which would
    take INVALID_TXN_STATE for the end of the producer.
    """
    if code is ErrorCode.PRODUCER_FENCED and api_version < fenced_from:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.INVALID_TXN_STATE and api_version >= abortable_from:
        return ErrorCode.TRANSACTION_ABORTABLE
    return code
