#!/usr/bin/env bash
# From a fresh Debian 12 machine to a running server: installs what is missing, builds, serves the bundled model at http://127.0.0.1:8080.
# Arguments pass to `k3 serve`; a first argument that is no flag is the model to serve instead of the bundled one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash tools/setup.sh build
configure=(cmake --preset release)
if [[ ! -e /usr/include/catch2/catch.hpp ]]; then configure+=(-DK3_TESTS=OFF); fi
"${configure[@]}" >&2
cmake --build --preset release --target k3 -j "$(bash tools/jobs.sh)" >&2

model=bundled
if [[ $# -gt 0 && "$1" != -* ]]; then
  model="$1"
  shift
fi

# What will be printed has to match what the server listens on.
host=127.0.0.1
port=8080
arguments=("$@")
for ((i = 0; i < ${#arguments[@]}; i++)); do
  case "${arguments[i]}" in
    --host=*) host="${arguments[i]#*=}" ;;
    --port=*) port="${arguments[i]#*=}" ;;
    --host) host="${arguments[i + 1]:-}" ;;
    --port) port="${arguments[i + 1]:-}" ;;
  esac
done
if [[ "$host" == *:* && "$host" != \[* ]]; then host="[$host]"; fi
if [[ "$port" == 0 ]]; then port="PORT"; fi

cat >&2 <<TEXT

  the page   http://$host:$port/
  to try     curl -N http://$host:$port/v1/chat/completions -H 'Content-Type: application/json' \\
               -d '{"messages":[{"role":"user","content":"What is the capital of France?"}],"stream":true,"temperature":0}'
  to stop    Ctrl-C

TEXT
exec build/release/k3 serve "$model" "$@"
