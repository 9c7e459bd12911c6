#!/usr/bin/env bash
# curl.sh K3: what a person with curl sees of `k3 serve bundled`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/clients/serve.sh

start_server "$1" bundled
json=(-H 'Content-Type: application/json')
question='{"messages":[{"role":"user","content":"What is the capital of France?"}],"temperature":0'

curl -sSN --max-time 60 "$url/v1/chat/completions" "${json[@]}" -d "$question,\"stream\":true}" >"$work/stream"
tail -n 3 "$work/stream" | grep -qx 'data: \[DONE\]' || complain "the stream does not end with [DONE]: $(tail -c 300 "$work/stream")"
thinking="$(grep -n '"reasoning_content":"' "$work/stream" | tail -n 1 | cut -d: -f1)"
answer="$(grep -n '"content":"[^"]' "$work/stream" | head -n 1 | cut -d: -f1)"
# "reasoning_content" does not match '"content":', since a quote stands before the name.
[[ -n "$thinking" && -n "$answer" && "$thinking" -lt "$answer" ]] ||
  complain "thinking does not come before the answer (lines ${thinking:-none} and ${answer:-none})"

curl -sS --max-time 60 "$url/v1/chat/completions" "${json[@]}" -d "$question}" >"$work/whole"
grep -q Paris "$work/whole" || complain "the capital of France: $(cat "$work/whole")"

curl -fsS --max-time 10 "$url/metrics" >"$work/metrics" || complain "GET /metrics"
for series in 'k3_generated_tokens_total{channel="think"}' k3_decoded_tokens_total k3_expert_read_bytes_total \
  'k3_requests_total{endpoint="/v1/chat/completions",code="200",finish="stop"}'; do
  grep -F "$series " "$work/metrics" | grep -q ' [1-9]' || complain "nothing is counted as $series: $(cat "$work/metrics")"
done

for path in /health /livez /readyz /v1/models /; do
  curl -fsS --max-time 10 -o "$work/body" "$url$path" || complain "GET $path"
done
grep -qi '<!doctype html>' "$work/body" || complain "the page at / is no page"

status() { curl -sS --max-time 10 -o "$work/body" -w '%{http_code}' "$@"; }
[[ "$(status "$url/nowhere")" == 404 ]] || complain "an unknown path is not 404"
[[ "$(status -X DELETE "$url/v1/chat/completions")" == 405 ]] || complain "a wrong method is not 405"
[[ "$(status "$url/v1/chat/completions" "${json[@]}" -d '{"messages":')" == 400 ]] || complain "half a JSON document is not 400"
grep -q '"error"' "$work/body" || complain "an error is not in OpenAI's shape: $(cat "$work/body")"
[[ "$(status -H 'Host: evil.example' "$url/v1/models")" == 4?? ]] || complain "a foreign Host is served"

# The port is taken: a second server has to say so before it loads anything.
code=0
timeout 60 "$1" serve bundled --port "${url##*:}" >"$work/second" 2>&1 </dev/null || code=$?
[[ "$code" -eq 1 ]] || complain "a second server on the port ended with $code, not 1: $(cat "$work/second")"

stop_server

# Defaults for requests that do not say, and a terminal that closes.
start_server "$1" bundled --think off --temperature 0
curl -sS --max-time 60 "$url/v1/chat/completions" "${json[@]}" -d "${question%,*}}" >"$work/whole"
grep -q Paris "$work/whole" || complain "the capital of France without thinking: $(cat "$work/whole")"
if grep -q '"reasoning_content":"' "$work/whole"; then complain "it thinks although --think is off: $(cat "$work/whole")"; fi
stop_server HUP

for flag in --drain --ping --temperature; do
  code=0
  timeout 60 "$1" serve bundled --port 0 "$flag" nan >"$work/refused" 2>&1 </dev/null || code=$?
  [[ "$code" -eq 2 ]] && grep -q -- "$flag" "$work/refused" || complain "$flag nan ended with $code: $(cat "$work/refused")"
done
echo "curl: all fine"
