#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every check, cheapest first: one line each, and what is wrong below it. Called by ./dev check, which
# has installed the tools and configured build/dev.
set -uo pipefail
cd "$(dirname "$0")/.."

failed=0
jobs=${ETUDE_JOBS:-$(nproc)}

# check NAME COMMAND...: a command that prints nothing and succeeds is fine.
check() {
  local name=$1 output status=0
  shift
  output=$("$@" 2>&1) || status=$?
  if ((status)); then
    printf '%-16s FAILED\n' "$name"
    failed=1
  else
    printf '%-16s ok\n' "$name"
  fi
  [[ -z $output ]] || printf '%s\n' "$output" | sed 's/^/  /'
}

list_cpp() { git ls-files -z --cached --others --exclude-standard '*.h' '*.cc' '*.inc' ':!etude/ops.h' ':!etude/ops/functions.cc'; }

format() {
  local stale
  stale=$(list_cpp | xargs -0 -r -P "$jobs" -n 50 clang-format-14 --dry-run 2>&1 | grep -oP '^[^ :]+(?=:\d+:\d+: warning)' |
    sort -u)
  [[ -z $stale ]] || { printf '%s\n' "$stale" "run: ./dev format" && return 1; }
}

# What is generated and checked in, by tools/generate/gen_*.py and by the target opgen (etude/ops.h,
# etude/ops/functions.cc, docs/opset.txt). With --check each compares what it would write with what is there, and names what is stale.
generated() {
  local script status=0
  for script in tools/generate/gen_*.py; do
    tools/generate/run_generator.sh "$script" --check || status=1
  done
  [[ -n $opgen_log ]] || return $status
  if ((opgen_status)); then cat "$opgen_log" && return 1; fi
  build/dev/bin/opgen --check || status=1
  return $status
}

# Where this branch left main, or, on main, the commit before; nothing for the first commit.
base_commit() {
  local base
  base=$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null) || base=
  if [[ -z $base || $base == "$(git rev-parse HEAD)" ]]; then
    base=$(git rev-parse --verify -q HEAD~1) || return 0
  fi
  printf '%s\n' "$base"
}

# Sources that differ from that commit.
changed_sources() {
  local base
  base=$(base_commit)
  [[ -z $base ]] || git diff --name-only --diff-filter=d "$base" -- 'etude/*.cc' 'tools/*.cc' 'examples/*.cc'
}

# Lines of docs/opset.txt change only with versions.
opset() {
  local base
  base=$(base_commit)
  [[ -z $base ]] || python3 tools/check_opset.py "$base"
}

lint() {
  local path sources=() commands
  while read -r path; do
    # Files of a part that is switched off here have no compile command.
    grep -q "/$path\"" build/dev/compile_commands.json && sources+=("$path")
  done < <(changed_sources)
  ((${#sources[@]})) || return 0
  # What g++ has precompiled, clang cannot read.
  commands=$(mktemp -d)
  sed 's/ -include [^ ]*cmake_pch\.hxx//g' build/dev/compile_commands.json >"$commands/compile_commands.json"
  printf '%s\n' "${sources[@]}" |
    xargs -P "$jobs" -n 2 clang-tidy-14 -p "$commands" --quiet 2>/dev/null
  local status=$?
  rm -r "$commands"
  return $status
}

# opgen is all that compiles: it is built beside the other checks.
opgen_log='' opgen_status=0
if ninja -C build/dev -t query opgen >/dev/null 2>&1; then
  opgen_log=$(mktemp)
  trap 'rm -f "$opgen_log"' EXIT
  cmake --build --preset dev --parallel "$jobs" --target opgen >"$opgen_log" 2>&1 &
fi

check format format
check layers python3 tools/check_layers.py
check includes python3 tools/check_includes.py
check sizes python3 tools/check_sizes.py
check lists python3 tools/check_lists.py
check words python3 tools/check_words.py
check api python3 tools/check_api.py
check headers python3 tools/check_headers.py
check statics python3 tools/check_statics.py
check kinds python3 tools/check_kinds.py
check host_door python3 tools/check_host_door.py
check readme python3 tools/check_readme.py
check rows python3 tools/rows.py --check
check opset opset
if [[ -n $opgen_log ]]; then wait $! || opgen_status=$?; fi
check generated generated
# Lint is run by hand until the tree is clean: ./dev check --lint
[[ ${1-} != --lint ]] || check lint lint
exit $failed
