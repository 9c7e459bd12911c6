#!/usr/bin/env bash
# command_line.sh K3: exit codes, what is refused by name, and the small commands' round trips.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
k3="$1"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
failed=0
checked=0

# expect CODE WORD COMMAND...: the exit code, and a word in what it printed (stdout and stderr).
expect() {
  local want="$1" word="$2" code=0
  shift 2
  timeout 120 "$@" >"$work/out" 2>&1 </dev/null || code=$?
  checked=$((checked + 1))
  if [[ "$code" -ne "$want" ]] || ! grep -qF -- "$word" "$work/out"; then
    echo "FAILED  $*: exit $code, expected $want and '$word' in: $(head -c 600 "$work/out")"
    failed=1
  fi
}
# same WANT GOT WHAT
same() {
  checked=$((checked + 1))
  if [[ "$1" != "$2" ]]; then
    echo "FAILED  $3: expected '$1', got '$2'"
    failed=1
  fi
}

expect 0 "Examples" "$k3" --help
for command in serve chat generate logits tokenize detokenize render parse verify synth doctor bench; do expect 0 "$command" "$k3" "$command" --help; done
expect 2 "there is no command 'sing'" "$k3" sing
expect 2 "not in this build" "$k3" repack a b --bits 8
expect 2 "MODEL" "$k3" tokenize
expect 2 "--chunk: 'many' is not a whole number" "$k3" generate bundled --prompt x --chunk many
expect 2 "--seed" "$k3" generate bundled --prompt x --seed 99999999999999999999999
expect 2 "--seed" "$k3" generate bundled --prompt x --seed -1
expect 2 "--max-tokens" "$k3" generate bundled --prompt x --max-tokens 010
expect 2 "--port" "$k3" serve bundled --port 99999
cp -r tools/mini/model "$work/no_vocabulary" && rm "$work/no_vocabulary/tiktoken.model"
expect 1 "tiktoken.model" "$k3" verify "$work/no_vocabulary"
expect 2 "K3_CHUNK" env K3_CHUNK=many "$k3" generate bundled --prompt x
expect 2 "--temperature" "$k3" generate bundled --prompt x --temperature nan
expect 2 "COLI_TEMP" env COLI_TEMP=-1 "$k3" generate bundled --prompt x
expect 2 "--frobnicate" "$k3" serve bundled --frobnicate
expect 2 "--ids: '1x'" "$k3" generate bundled --ids 1,1x
expect 2 "--prompt-file" "$k3" generate bundled
expect 2 "--isa" "$k3" generate bundled --prompt x --isa mmx

for flag in --mla-bits --head-bits --dirs --mmap --vulkan --vulkan-gb --vulkan-uploads --ram-gb; do
  expect 2 "$flag" "$k3" serve bundled "$flag" 8
  grep -qF "not in this build" "$work/out" || { echo "FAILED  $flag is not refused by name"; failed=1; }
done
expect 2 "--vulkan" "$k3" serve --vulkan bundled
for variable in K3_MLA_BITS K3_HEAD_BITS K3_DIRS K3_MMAP K3_VK K3_VK_GB K3_VK_UP; do
  expect 2 "$variable" env "$variable=1" "$k3" generate bundled --prompt x
done
for bits in 4 8 32; do expect 2 "'$bits' is not in this build" "$k3" serve bundled --bits "$bits"; done
expect 2 "K3_BITS" env K3_BITS=8 "$k3" serve bundled
expect 2 "K3_IDOT" env K3_IDOT=1 "$k3" serve bundled

expect 1 "no directory" "$k3" tokenize /nowhere/at/all
expect 1 "line 1" bash -c "echo '[' | '$k3' tokenize bundled"
expect 1 "no token has the id" bash -c "echo '[99999999]' | '$k3' detokenize bundled"
expect 1 "messages" bash -c "echo '{}' | '$k3' render bundled"

text='"Grüße, 世界! <|open|> \n 🙂"'
same '"Grüße, 世界! <|open|> \n 🙂"' "$(echo "$text" | "$k3" tokenize bundled | "$k3" detokenize bundled)" "text to ids and back"
plain="$(echo '"<|open|>"' | "$k3" tokenize bundled)"
special="$(echo '"<|open|>"' | "$k3" tokenize bundled --special)"
same '[1539]' "$special" "a reserved token with --special"
[[ "$plain" != "$special" ]] || { echo "FAILED  a reserved token is recognised without --special"; failed=1; }

question='{"messages":[{"role":"user","content":"What is the capital of France?"}]}'
echo "$question" >"$work/request.json"
expect 0 '"segments":[[' bash -c "'$k3' render bundled <'$work/request.json'"
"$k3" generate bundled --messages "$work/request.json" --temperature 0 --json >"$work/one.json" || failed=1
expect 0 Paris cat "$work/one.json"
for extra in "--chunk 1" "--threads 1" "--expert-gb 0" "--pipe 0" "--direct 0" "--exact --bits 16" "--expert-top-p 1"; do
  # shellcheck disable=SC2086
  "$k3" generate bundled --messages "$work/request.json" --temperature 0 --json $extra >"$work/two.json" || failed=1
  same "$(sed 's/"timings".*//' "$work/one.json")" "$(sed 's/"timings".*//' "$work/two.json")" "the answer with $extra"
done
first="$("$k3" generate bundled --prompt 'The' --seed 5 --max-tokens 12 --json | sed 's/"timings".*//')"
same "$first" "$("$k3" generate bundled --prompt 'The' --seed 5 --max-tokens 12 --json | sed 's/"timings".*//')" "the same seed"

expect 0 Paris "$k3" chat bundled --once 'What is the capital of France?' --temperature 0
same "$("$k3" chat bundled --once 'What is the capital of France?' --temperature 0 2>/dev/null)" \
  "$(echo 'What is the capital of France?' | "$k3" chat bundled --temperature 0 2>/dev/null)" "a piped message"
turns="$(printf 'My pet is a panda.\nWhat pet do I have?\n' | "$k3" chat bundled --temperature 0 --think off 2>/dev/null)"
[[ "$turns" == *panda* ]] || { echo "FAILED  the second turn does not know the first: $turns"; failed=1; }
expect 1 "context" "$k3" chat bundled --once 'What is the capital of France?' --max-context 8

expect 0 "kernels" "$k3" doctor
expect 0 "a token" "$k3" doctor bundled --seconds 0.2
expect 0 "" "$k3" verify bundled --full

"$k3" synth "$work/synth" --layers 4 --experts 8 --tiny --seed 3 >"$work/out" 2>&1 || { cat "$work/out"; failed=1; }
expect 0 "" "$k3" verify "$work/synth" --full
expect 0 "" "$k3" generate "$work/synth" --ids 1,2,3 --max-tokens 3

echo "$checked checks of the command line"
exit "$failed"
