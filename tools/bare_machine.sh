#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bare_machine.sh [--quick] [COMMAND...]: the README's commands on a machine that has nothing but Debian.
#
# Makes a minimal Debian 12 once, and for each command a fresh copy of it with this commit's files in /root/etude, so
# that no command lives on what another has installed. COMMANDs are train, test, install and wheel (the default: all four);
# install builds a program against the package, wheel is the path of a user of Python: pip install, from the clone and
# from the sdist, and a first training. With --quick `test` builds and runs two tests alone, one by each compiler:
# what it installs and configures is the same; `wheel` leaves out the sdist. As root; the compiler's cache is that of this machine.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

quick=no
if [[ ${1-} == --quick ]]; then quick=yes && shift; fi
commands=("$@")
((${#commands[@]})) || commands=(train test install wheel)

say() { printf '===== bare machine: %s\n' "$*"; }
die() {
  printf 'bare_machine.sh: %s\n' "$*" >&2
  exit 1
}
# Without them a machine of CI leaves it out, and says so; by hand it is an error.
lacks() {
  [[ $quick == no ]] || { say "left out: $*" && exit 0; }
  die "$*"
}
((EUID == 0)) || lacks "making a root of Debian needs root"
command -v mmdebstrap >/dev/null || die "install it: apt-get install mmdebstrap"
unshare --mount --fork --pid true || lacks "this machine allows no namespaces"

folder=$(mktemp -d)
trap 'rm -rf --one-file-system "$folder"' EXIT
base=$folder/base.tar

say "making a minimal Debian"
mmdebstrap --quiet --variant=minbase --include=ca-certificates bookworm "$base" \
  'deb http://deb.debian.org/debian bookworm main' \
  'deb http://deb.debian.org/debian bookworm-updates main' \
  'deb http://deb.debian.org/debian-security bookworm-security main'

# What each command is, as a user types it.
script_of() {
  case $1 in
    train) echo './dev train --epochs 1' ;;
    test)
      if [[ $quick == yes ]]; then
        echo "./dev test --target base_test --target formats_fuzz --no-tests=error -R '^(base|formats_fuzz)\$'"
      else
        echo './dev test'
      fi
      ;;
    install)
      cat <<'END'
./dev install /root/installed
mkdir /root/program && cp tests/install/consumer/consumer.cc /root/program && cd /root/program
cat >CMakeLists.txt <<'LIST'
cmake_minimum_required(VERSION 3.25)
project(program LANGUAGES CXX)
find_package(Etude 0.1 REQUIRED)
add_executable(program consumer.cc)
target_link_libraries(program PRIVATE Etude::etude)
LIST
cmake -S . -B build -DCMAKE_PREFIX_PATH=/root/installed && cmake --build build && build/program
END
      ;;
    wheel)
      # What pip compiles is in ccache after the first time, and the sdist is the same sources: --quick leaves it out.
      local sources='. sdist'
      [[ $quick == no ]] || sources=.
      printf './dev setup\nfor source in %s; do\n' "$sources"
      cat <<'END'
  if [[ $source == sdist ]]; then ./dev wheel /root/dist; source=/root/dist/etude-*.tar.gz; fi
  rm -rf /root/venv && python3 -m venv /root/venv
  /root/venv/bin/pip install $source
  (cd /root && venv/bin/python -m etude info && venv/bin/etude ops show matmul >/root/ops.txt)
done
cd /root && venv/bin/python -m etude.examples.lenet 1
cmake -G Ninja -S etude/tests/wheel/consumer -B consumer "-DEtude_DIR=$(venv/bin/python -m etude --cmake-dir)"
cmake --build consumer && consumer/version
etude/dev python -c 'import etude as et; print(et.ones(2) + 1)'
END
      ;;
    *) die "there is no command '$1'; take train, test, install or wheel" ;;
  esac
}

# in_copy NAME: unpacks the base, and runs the script of NAME inside; mounts end with the namespace.
in_copy() {
  local root=$folder/$1 cache size
  cache=$(ccache --get-config cache_dir 2>/dev/null || echo "$HOME/.cache/ccache")
  size=$(ccache --get-config max_size 2>/dev/null || echo 5G)
  mkdir -p "$root" "$cache"
  tar -C "$root" -xf "$base"
  mkdir -p "$root/root/etude" "$root/root/.cache/ccache"
  git archive HEAD | tar -C "$root/root/etude" -x
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  # pip trusts a list of its own, without the certificate of a proxy that this machine may be behind.
  cp /etc/ssl/certs/ca-certificates.crt "$root/root/certificates.crt"
  script_of "$1" >"$root/root/run.sh"
  unshare --mount --fork --pid bash -c '
    set -e
    mount -t proc proc "$1/proc"
    mount --rbind /dev "$1/dev"
    mount --bind "$2" "$1/root/.cache/ccache"
    exec chroot "$1" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 CCACHE_MAXSIZE="$3" PIP_CERT=/root/certificates.crt \
      ${CI:+CI=$CI} \
      bash -ec "cd /root/etude && . /root/run.sh"' bash "$root" "$cache" "$size"
  rm -rf --one-file-system "$root"
}

failed=()
for command in "${commands[@]}"; do
  begin=$SECONDS
  say "$command"
  in_copy "$command" </dev/null || failed+=("$command")
  say "$command: $((SECONDS - begin)) s"
done
((${#failed[@]} == 0)) || die "failed: ${failed[*]}"
