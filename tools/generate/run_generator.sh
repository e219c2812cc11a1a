#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run_generator.sh SCRIPT [ARGS]: runs a generator with a Python that has what it imports. Debian puts
# NumPy beside its own Python, which need not be the first one that is found.
set -euo pipefail
script=$1
if ! grep -q '^import numpy' "$script"; then exec python3 "$@"; fi
for python in python3 /usr/bin/python3; do
  if "$python" -c 'import numpy, scipy' 2>/dev/null; then exec "$python" "$@"; fi
done
echo "$script was left out: it needs python3-numpy and python3-scipy"
