# SPDX-License-Identifier: Apache-2.0
"""The rows of the table of Python in NumPy."""
import numpy as np
import statements

from serve import serve

ROWS = statements.statements(lambda a: a, np.asarray)
serve("numpy", np.__version__, {"python": ROWS})
