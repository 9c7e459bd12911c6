#!/usr/bin/env bash
# From a fresh Debian 12 machine to a verdict: installs, builds with both compilers and the sanitizers, runs every test.
# Ends non-zero when anything failed; the last line counts the steps. K3_ROUNDS sets the rounds of the client-killing tests.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

logs="build/test-logs"
mkdir -p "$logs"
passed=0
failed=0
failures=()
begun=$SECONDS

# step NAME COMMAND...: runs it in a shell of its own (it may change folder) with its output in a log, prints one line; the log's end too when it failed.
step() {
  local name="$1" start=$SECONDS log
  shift
  log="$logs/${name// /-}.log"
  if ("$@") >"$log" 2>&1 </dev/null; then
    passed=$((passed + 1))
    printf 'ok      %-32s %5d s\n' "$name" $((SECONDS - start))
    return 0
  fi
  failed=$((failed + 1))
  failures+=("$name")
  printf 'FAILED  %-32s %5d s   (whole log: %s)\n' "$name" $((SECONDS - start)) "$log"
  tail -n 60 "$log" | sed 's/^/        | /'
  return 1
}

finish() {
  printf '\n%d s in all\n' $((SECONDS - begun))
  for name in "${failures[@]}"; do echo "failed: $name"; done
  echo "$passed passed, $failed failed"
  [[ "$failed" -eq 0 ]]
  exit
}

build() { # build PRESET [configure arguments]
  local preset="$1"
  shift
  cmake --preset "$preset" "$@" && cmake --build --preset "$preset" -j "$(bash tools/jobs.sh)"
}
run_tests() { ctest --test-dir "build/$1" -j 2 --output-on-failure --no-tests=error; }
preset_steps() { # preset_steps PRESET [configure arguments]: builds it and, where that worked, runs its unit tests
  local preset="$1"
  shift
  step "build $preset" build "$preset" "$@" && step "unit tests $preset" run_tests "$preset"
}
client_packages() { cd tests/clients && npm ci --no-audit --no-fund --ignore-scripts; }

step "packages" bash tools/setup.sh test || finish
python=/usr/bin/python3 # by path: numpy comes with Debian's, and another python3 may stand before it in PATH
k3=build/release/k3

step "style" "$python" tests/tidy/tidy.py
# Said outright, because run.sh may have turned the tests off in this build folder. Failing unit tests leave a program worth testing.
preset_steps release -DK3_TESTS=ON
[[ -x "$k3" ]] || finish
step "golden vectors" "$python" tests/clients/golden.py "$k3"
step "bad checkpoints" bash tests/clients/bad_checkpoint.sh "$k3"
step "repack" bash tests/clients/repack.sh "$k3"
step "several drives and mapping" bash tests/clients/drives.sh "$k3"
step "container of another tool" "$python" tests/clients/foreign_container.py "$k3"
step "command line" bash tests/clients/command_line.sh "$k3"
step "chat at a terminal" "$python" tests/clients/chat_terminal.py "$k3"
step "curl" bash tests/clients/curl.sh "$k3"
step "transcripts over HTTP" node tests/clients/transcripts.mjs "$k3"
step "bench" bash tests/clients/bench.sh "$k3"
step "page" node tests/clients/page.mjs "$k3"
step "page in a browser" node tests/clients/thinking_page.mjs "$k3"
step "killed clients" node tests/clients/kill_clients.mjs "$k3" "${K3_ROUNDS:-20}"
step "doors" bash tests/clients/doors.sh "$k3"
step "slow clients" bash tests/clients/slow_clients.sh "$k3"
step "proxies" "$python" tests/clients/proxies.py "$k3"
step "crowd" "$python" tests/clients/crowd.py "$k3" 500 200 3
step "load and cancel" "$python" tests/clients/soak.py "$k3" 120 64
step "tokenizer against npm tiktoken" bash tests/clients/tokenizer/run.sh "$k3"
step "client packages" client_packages && {
  step "schemas against ajv" node tests/clients/grammar.mjs "$(dirname "$k3")/test_grammar"
  step "structured answers" node tests/clients/structured.mjs "$k3"
  step "openai client" node tests/clients/openai/openai.mjs "$k3"
  step "openai responses" node tests/clients/openai/responses.mjs "$k3"
  step "anthropic client" node tests/clients/anthropic/anthropic.mjs "$k3"
  step "langchain client" node tests/clients/langchain/langchain.mjs "$k3"
  step "ai-sdk client" node tests/clients/ai-sdk/ai-sdk.mjs "$k3"
}
step "headers stand alone" "$python" tests/tidy/headers.py

preset_steps gcc
preset_steps asan && step "killed clients asan" node tests/clients/kill_clients.mjs build/asan/k3 "${K3_ROUNDS:-5}"
preset_steps tsan
preset_steps fuzz
finish
