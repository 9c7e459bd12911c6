#!/usr/bin/env bash
# setup.sh [build|test]: installs the Debian packages the project needs, by name. Quick when all are there already.
#   build  what it takes to build and run k3
#   test   that, and what the tests need (the default)
set -euo pipefail

what="${1:-test}"

# libstdc++ and libc headers are named although clang only recommends them: recommendations are not installed here.
build_packages=(
  binutils ca-certificates ccache clang-19 cmake curl libc6-dev libclang-rt-19-dev libstdc++-12-dev lld-19 llvm-19 ninja-build pkg-config
  libboost1.81-dev libcli11-dev libfmt-dev libsimdjson-dev libspdlog-dev libssl-dev liburing-dev
)
test_packages=(g++ catch2 chromium clang-tidy-19 haproxy nginx-light openssl procps python3 python3-numpy slowhttptest)

wanted=("${build_packages[@]}")
case "$what" in
  build) ;;
  test)
    wanted+=("${test_packages[@]}")
    # A newer Node than Debian's may be installed already, from elsewhere: asking for Debian's would replace it.
    node_major="$(node --version 2>/dev/null | sed -n 's/^v\([0-9]*\).*/\1/p' || true)"
    if [[ "${node_major:-0}" -lt 18 ]]; then wanted+=(nodejs); fi
    if ! command -v npm >/dev/null; then wanted+=(npm); fi
    ;;
  *)
    echo "usage: setup.sh [build|test]" >&2
    exit 2
    ;;
esac

installed=" $(dpkg-query -W -f='${db:Status-Status}=${Package} ' "${wanted[@]}" 2>/dev/null || true)"
missing=()
for package in "${wanted[@]}"; do
  [[ "$installed" == *" installed=$package "* ]] || missing+=("$package")
done
if [[ ${#missing[@]} -eq 0 ]]; then exit 0; fi

as_root=()
if [[ "$(id -u)" -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: these packages are missing and only root can install them:" >&2
    echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "setup: installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get -q update >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install "${missing[@]}" >&2
