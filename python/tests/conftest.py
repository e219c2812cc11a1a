# SPDX-License-Identifier: Apache-2.0
"""Fixtures of all tests of the package."""
