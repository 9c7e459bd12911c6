#!/usr/bin/env bash
# slow_clients.sh K3 [SECONDS]: slowhttptest sends heads and bodies in drips and reads answers in drips, while a normal client of another
# address is served as ever.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/clients/serve.sh
seconds="${2:-8}"
sockets="${3:-400}"
command -v slowhttptest >/dev/null || complain "slowhttptest is not installed"

start_server "$1" bundled --queue 64
normal=(curl -sS --interface 127.0.0.2 --max-time 60)
question='{"messages":[{"role":"user","content":"What is 48+75?"}],"temperature":0,"stream":true}'
ask() {
  "${normal[@]}" -N "$url/v1/chat/completions" -H 'Content-Type: application/json' -d "$question" |
    grep '"delta":' | sed 's/"id":"[^"]*"//; s/"created":[0-9]*//; s/"timings":.*//'
}
alone="$(ask)"
[[ -n "$alone" ]] || complain "no answer"

attack() { # attack NAME ARGUMENTS...
  local name="$1" asked=0
  shift
  slowhttptest "$@" -c "$sockets" -r 200 -l "$seconds" >"$work/attack" 2>&1 &
  local attacker=$!
  while kill -0 "$attacker" 2>/dev/null; do
    "${normal[@]}" -f -o /dev/null "$url/health" || complain "$name: /health does not answer"
    [[ "$(ask)" == "$alone" ]] || complain "$name: the answer is another than without the attack"
    asked=$((asked + 1))
    sleep 0.2
  done
  wait "$attacker" || true
  [[ "$asked" -gt 1 ]] || complain "$name ended at once: $(tail -n 20 "$work/attack")"
  echo "$name: $asked answers meanwhile"
}
attack "slow heads" -H -i 1 -u "$url/health"
attack "slow bodies" -B -i 1 -s 100000 -u "$url/v1/chat/completions"
attack "slow reading" -X -w 1 -y 2 -n 1 -z 1 -k 3 -u "$url/metrics"

for _ in $(seq 600); do
  left="$("${normal[@]}" "$url/metrics" | awk '/^k3_connections\{/ { sum += $2 } END { print sum }')"
  [[ "$left" -le 1 ]] && break
  sleep 0.1
done
[[ "$left" -le 1 ]] || complain "$left connections are left of the attacks"
stop_server
echo "slow clients: all fine"
