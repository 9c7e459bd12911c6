#!/usr/bin/env bash
# doors.sh K3: TLS, the Unix socket, keys, the JSON log, and the end of a server's life, as an operator sees them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/clients/serve.sh

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 \
  -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
export CURL_CA_BUNDLE="$work/cert.pem"
question='{"messages":[{"role":"user","content":"What is the capital of France?"}],"temperature":0,"stream":true}'
long='{"messages":[{"role":"user","content":"Count 1 to 60."}],"temperature":0,"stream":true,"max_tokens":4000}'
ask() { curl -sSN --max-time 60 -H 'Content-Type: application/json' -d "$question" "$@"; }
status() { curl -sS --max-time 10 -o "$work/body" -w '%{http_code}' "$@"; }

# Through TLS and the Unix socket, with a key, and JSON lines on stderr.
(umask 077 && printf 'alice:correct-horse\n' >"$work/keys")
start_server "$1" bundled --tls-cert "$work/cert.pem" --tls-key "$work/key.pem" --unix "$work/k3.sock" --api-key-file "$work/keys" \
  --log-format json
[[ "$url" == https://* ]] || complain "with TLS the address is $url"
ask "$url/v1/chat/completions" -H 'Authorization: Bearer correct-horse' >"$work/stream"
grep -qx 'data: \[DONE\]' "$work/stream" || complain "no whole stream through TLS: $(tail -c 300 "$work/stream")"
ask --unix-socket "$work/k3.sock" http://localhost/v1/chat/completions -H 'x-api-key: correct-horse' >"$work/stream"
grep -qx 'data: \[DONE\]' "$work/stream" || complain "no whole stream through the Unix socket: $(tail -c 300 "$work/stream")"
[[ "$(status --unix-socket "$work/k3.sock" http://localhost/v1/models)" == 401 ]] || complain "the Unix socket asks for no key"
[[ "$(stat -c %a "$work/k3.sock")" == 600 ]] || complain "the Unix socket is open to others"
# Open to every user of the machine.
if tr '\0' '\n' <"/proc/$server/cmdline" | grep -q correct-horse; then complain "the key is in the list of processes"; fi
stop_server
[[ ! -e "$work/k3.sock" ]] || complain "the Unix socket's file is left"
grep -v '^loading\|^ready' "$work/server.err" | grep . >"$work/log" || complain "there is no log"
python3 -c '
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
asked = [line for line in lines if line.get("path") == "/v1/chat/completions"]
assert len(asked) == 2 and all(line["key"] == "alice" and line["status"] == 200 and line["finish"] == "stop" for line in asked), asked
assert {line["peer"] for line in asked} == {"unix", "127.0.0.1"}, asked
' "$work/log" || complain "the log: $(cat "$work/log")"
if grep -q correct-horse "$work/server.err"; then complain "the key is in the log"; fi
unset CURL_CA_BUNDLE

# What cannot work is said at once, and not after the model has loaded.
refused() { # refused WORD ARGUMENTS...
  local word="$1" code=0
  shift
  timeout 60 "$k3" serve bundled --port 0 "$@" >"$work/refused" 2>&1 </dev/null || code=$?
  [[ "$code" -ne 0 && "$code" -ne 124 ]] && grep -qF -- "$word" "$work/refused" && ! grep -q ^listening "$work/refused" ||
    complain "serve $*: $code, $(cat "$work/refused")"
}
k3="$1"
refused "$work/none.pem" --tls-cert "$work/none.pem" --tls-key "$work/key.pem"
refused "$work/cert.pem" --tls-cert "$work/cert.pem" --tls-key "$work/cert.pem"
refused --tls-key --tls-cert "$work/cert.pem"
refused 'no socket' --unix "$work/cert.pem"
refused --unix --unix-only
refused 'not an origin' --cors-origin app.example
refused '--max-connections' --max-connections 10
refused "$work/nowhere/log" --log-file "$work/nowhere/log"
refused 'API key' --host 0.0.0.0

# Whoever reads the log may leave.
python3 - "$k3" <<'TEXT' || complain "the server does not outlive the reader of its log"
import subprocess, sys, urllib.request
server = subprocess.Popen([sys.argv[1], 'serve', 'bundled', '--port', '0'], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
url = server.stdout.readline().decode().split()[-1]
server.stderr.close()
try:
    for _ in range(5):
        assert urllib.request.urlopen(url + '/livez', timeout=60).status == 200
    server.terminate()
    assert server.wait(timeout=60) == 0
finally:
    server.kill()
TEXT

# G5: told to end, it takes nothing new and lets what runs go on until the deadline.
start_server "$1" bundled --drain-seconds 2 --isa scalar --threads 1 --expert-gb 0 --log-file "$work/requests.log"
curl -sSN --max-time 60 -H 'Content-Type: application/json' -d "$long" "$url/v1/chat/completions" >"$work/stream" &
streaming=$!
for _ in $(seq 600); do grep -q '"delta"' "$work/stream" 2>/dev/null && break || sleep 0.05; done
kill -TERM "$server"
for _ in $(seq 100); do [[ "$(status "$url/readyz")" == 503 ]] && break || sleep 0.02; done
[[ "$(status "$url/readyz")" == 503 ]] || complain "/readyz while it drains"
[[ "$(status "$url/livez")" == 200 ]] || complain "/livez while it drains"
[[ "$(curl -sS -D "$work/head" -o "$work/body" -w '%{http_code}' -d "$question" "$url/v1/chat/completions")" == 503 ]] ||
  complain "a new chat while it drains: $(cat "$work/body")"
grep -qi '^retry-after: ' "$work/head" || complain "no advice to come again: $(cat "$work/head")"
code=0
wait "$server" || code=$?
server=""
[[ "$code" -eq 0 ]] || complain "the drained server ended with $code: $(cat "$work/server.err")"
wait "$streaming" || complain "the stream was cut off"
grep -q shutting_down "$work/stream" || complain "the stream does not say why it ends: $(tail -c 300 "$work/stream")"
grep -q 'POST /v1/chat/completions 503' "$work/requests.log" || complain "the log file: $(cat "$work/requests.log")"

# A second signal ends it at once, whatever runs.
start_server "$1" bundled --drain-seconds 3600 --unix "$work/k3.sock" --isa scalar --threads 1 --expert-gb 0
curl -sSN --max-time 60 -H 'Content-Type: application/json' -d "$long" "$url/v1/chat/completions" >"$work/stream" 2>/dev/null &
for _ in $(seq 600); do grep -q '"delta"' "$work/stream" && break || sleep 0.05; done
kill -TERM "$server"
for _ in $(seq 100); do [[ "$(status "$url/readyz")" == 503 ]] && break || sleep 0.02; done
kill -TERM "$server"
code=0
wait "$server" || code=$?
server=""
[[ "$code" -eq 143 ]] || complain "after a second signal it ended with $code"
[[ ! -e "$work/k3.sock" ]] || complain "after a second signal the Unix socket's file is left"
grep -q 'again: ending at once' "$work/server.err" || complain "the log says nothing of a second signal"
wait
echo "doors: all fine"
