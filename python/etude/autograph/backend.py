# SPDX-License-Identifier: Apache-2.0
"""Everything that conversion needs from Etude. No other file of this package touches a tensor."""

from __future__ import annotations

from typing import Any, Optional


def error(kind: str, text: str, file: str, line: int) -> BaseException:
    raise NotImplementedError
