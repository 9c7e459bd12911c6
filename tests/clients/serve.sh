# For scripts that source it: start_server K3 MODEL [arguments] sets $url and $server; stop_server [SIGNAL] insists on a clean end.
work="$(mktemp -d)"
server=""
clean_up() {
  if [[ -n "$server" ]]; then kill -KILL "$server" 2>/dev/null; fi
  rm -rf "$work"
}
trap clean_up EXIT

complain() {
  echo "FAILED: $*" >&2
  exit 1
}

start_server() {
  local k3="$1" model="$2"
  shift 2
  # Under nohup a hang-up is ignored, by the server too: it has to start as it would without.
  env --default-signal=HUP "$k3" serve "$model" --port 0 "$@" >"$work/server.out" 2>"$work/server.err" </dev/null &
  server=$!
  for _ in $(seq 600); do
    url="$(sed -n 's/^listening on //p' "$work/server.out")"
    if [[ -n "$url" ]] && curl -fsS "$url/health" >/dev/null 2>&1; then return 0; fi
    if ! kill -0 "$server" 2>/dev/null; then break; fi
    sleep 0.1
  done
  cat "$work/server.out" "$work/server.err" >&2
  complain "the server did not come up"
}

stop_server() {
  local code=0 signal="${1:-TERM}"
  kill "-$signal" "$server"
  for _ in $(seq 600); do
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  if kill -0 "$server" 2>/dev/null; then complain "the server lives on a minute after SIG$signal"; fi
  wait "$server" || code=$?
  server=""
  [[ "$code" -eq 0 ]] || complain "the server ended with $code after SIG$signal: $(cat "$work/server.err")"
}
