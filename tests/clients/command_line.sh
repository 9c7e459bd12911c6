#!/usr/bin/env bash
# command_line.sh K3: exit codes, what is refused by name, and the small commands' round trips.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
k3="$1"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
source tests/clients/checks.sh
limit=120

# same WANT GOT WHAT
same() {
  checked=$((checked + 1))
  if [[ "$1" != "$2" ]]; then
    echo "FAILED  $3: expected '$1', got '$2'"
    failed=1
  fi
}

expect 0 "Examples" "$k3" --help
for command in serve chat generate logits tokenize detokenize render parse verify repack synth doctor bench; do
  expect 0 "$command" "$k3" "$command" --help
done
expect 2 "there is no command 'sing'" "$k3" sing
expect 2 "--bits: '5' is not one of" "$k3" repack a b --bits 5
expect 1 "MODEL is no directory" "$k3" repack /nowhere/at/all "$work/never"
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
expect 2 "--temperature: '2.5' is not a number from 0 to 2" "$k3" generate bundled --prompt x --temperature 2.5
expect 2 "--sampling-contract" "$k3" serve bundled --sampling-contract closed
expect 2 "--temperature has no effect with --sampling-contract moonshot" "$k3" serve bundled --sampling-contract moonshot --temperature 1
expect 2 "--top-p has no effect with --sampling-contract moonshot" env K3_SAMPLING_CONTRACT=moonshot "$k3" serve bundled --top-p 1
expect 1 "warning: COLI_TEMP has no effect with --sampling-contract moonshot" \
  env COLI_TEMP=1 "$k3" serve /nowhere/at/all --sampling-contract moonshot
expect 1 "no request can have this Host, expected a name or an address without scheme, port or path" \
  "$k3" serve bundled --port 0 --allowed-host a/b
expect 2 "--ids: '1x'" "$k3" generate bundled --ids 1,1x
expect 2 "--prompt-file" "$k3" generate bundled
expect 2 "--isa" "$k3" generate bundled --prompt x --isa mmx

for flag in --vulkan --vulkan-gb --vulkan-uploads; do
  expect 2 "$flag" "$k3" serve bundled "$flag" 8
  grep -qF "not in this build" "$work/out" || { echo "FAILED  $flag is not refused by name"; failed=1; }
done
expect 2 "--vulkan" "$k3" serve --vulkan bundled
for variable in K3_VK K3_VK_GB K3_VK_UP; do
  expect 2 "$variable" env "$variable=1" "$k3" generate bundled --prompt x
done
for flag in --bits --mla-bits --head-bits; do
  expect 2 "'32' is not in this build" "$k3" serve bundled "$flag" 32
  expect 2 "'5' is not one of" "$k3" serve bundled "$flag" 5
  for bits in 4 8 16 auto; do expect 0 "" "$k3" generate bundled --prompt x --max-tokens 1 "$flag" "$bits"; done
done
expect 2 "K3_BITS" env K3_BITS=12 "$k3" serve bundled
expect 1 "exact products" "$k3" generate bundled --prompt x --exact --bits 8
expect 2 "K3_IDOT" env K3_IDOT=2 "$k3" serve bundled


# Switches are on or off and nothing else, by flag and by variable.
for switch in --direct --pipe --exact --json; do
  for value in 2 -1 yes 00; do expect 2 "$switch: '$value' is neither" "$k3" generate bundled --prompt x "$switch=$value"; done
  for value in 1 true; do expect 0 "" "$k3" generate bundled --prompt x --max-tokens 1 "$switch=$value"; done
done
for switch in --direct --pipe; do
  expect 2 "$switch: '2' is neither" "$k3" generate bundled --prompt x "$switch" 2
  for value in 0 false; do expect 0 "" "$k3" generate bundled --prompt x --max-tokens 1 "$switch" "$value"; done
done
expect 2 "--full: '2' is neither" "$k3" verify bundled --full=2
expect 2 "--special: 'x' is neither" "$k3" tokenize bundled --special=x
expect 2 "--tiny: '3' is neither" "$k3" synth "$work/never" --layers 2 --experts 8 --tiny=3
expect 0 "sizes and headers only" "$k3" verify bundled --full=0
for variable in K3_DIRECT K3_PIPE; do
  expect 2 "$variable" env "$variable=2" "$k3" generate bundled --prompt x
  expect 0 "" env "$variable=0" "$k3" generate bundled --prompt x --max-tokens 1
done
expect 2 "K3_IDOT" env K3_IDOT=2 "$k3" generate bundled --prompt x

# A variable whose value is wrong is named whatever the command, unless a flag wins over it; a good one that the command cannot honour is
# named in a warning.
bad_variables="K3_BITS=3 K3_EXPERT_GB=-1 K3_DIRECT=2 K3_PIPE=x K3_LOAD_THREADS=0 K3_TOPP=2 K3_CHUNK=0x K3_THINK=much K3_MAXT=0 K3_LAYERS=0 \
K3_DIRS=,a K3_MMAP=2 K3_SAMPLING_CONTRACT=closed COLI_TEMP=hot K3_IDOT=2 K3_VK=1 K3_MLA_BITS=9 K3_HEAD_BITS=0"
for setting in $bad_variables; do
  for command in "verify bundled" "tokenize bundled" "serve bundled" "synth $work/never --layers 2 --experts 8"; do
    # shellcheck disable=SC2086
    expect 2 "${setting%%=*}" env "$setting" "$k3" $command
  done
done
expect 0 "" env K3_CHUNK=many "$k3" generate bundled --prompt x --max-tokens 1 --chunk 4
good_variables="K3_BITS=8 K3_MLA_BITS=8 K3_HEAD_BITS=16 K3_EXPERT_GB=1 K3_DIRECT=1 K3_PIPE=1 K3_LOAD_THREADS=2 K3_TOPP=1 K3_CHUNK=8 K3_THINK=off K3_MAXT=64 \
K3_MMAP=1 K3_SAMPLING_CONTRACT=moonshot K3_LAYERS=2 K3_TRACE=f K3_X0=f COLI_TEMP=0 K3_IDOT=0"
for setting in $good_variables; do
  expect 0 "warning: ${setting%%=*} is set and has no effect on" env "$setting" "$k3" verify bundled
done
for variable in K3_X0 K3_TRACE; do
  expect 0 "warning: $variable" env "$variable=f" "$k3" generate bundled --prompt x --max-tokens 1
  expect 0 "warning: $variable" env "$variable=f" "$k3" chat bundled --once hi --max-tokens 1
done
expect 1 "/nowhere" env K3_X0=/nowhere "$k3" logits bundled --ids 1 --out "$work/logits"
expect 0 "K3_THINK" env K3_THINK=low "$k3" generate bundled --prompt x --max-tokens 1
same "" "$(env K3_CHUNK=8 COLI_TEMP=0 "$k3" generate bundled --prompt x --max-tokens 1 2>&1 >/dev/null)" "stderr with variables that count"

for command in "generate bundled --prompt x" "chat bundled --once hi" "logits bundled --ids 1 --out $work/logits" "doctor bundled"; do
  # shellcheck disable=SC2086
  expect 1 "expected 1 to 8, which the model has, got 9" "$k3" $command --layers 9
done
expect 0 "" "$k3" generate bundled --prompt x --max-tokens 1 --layers 8

# What cannot be written is a failure: to a full disk, to a closed stream. Nor may a file opened later take the closed stream's place.
for command in --help --version "generate --help" "verify bundled" "verify bundled --full" doctor "doctor bundled --seconds 0.1" \
  "synth $work/full --layers 2 --experts 8 --tiny" \
  "generate bundled --prompt x --max-tokens 1" "generate bundled --prompt x --max-tokens 1 --json" "chat bundled --once hi"; do
  rm -rf "$work/full"
  expect 1 "cannot write the output" bash -c "'$k3' $command >/dev/full"
  rm -rf "$work/full"
  expect 1 "cannot write the output" bash -c "'$k3' $command >&-"
done
expect 1 "cannot write the output" bash -c "echo '\"a\"' | '$k3' tokenize bundled >/dev/full"
"$k3" logits bundled --ids 1,2 --out "$work/logits.1" || failed=1
"$k3" logits bundled --ids 1,2 --out "$work/logits.2" <&- >&- || failed=1
same "$(od -An -tx1 "$work/logits.1")" "$(od -An -tx1 "$work/logits.2")" "logits with closed streams"
expect 1 "Bad file descriptor" bash -c "'$k3' render bundled <&-"

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
for extra in "--chunk 1" "--threads 1" "--expert-gb 0" "--ram-gb 0.32" "--latent-cache float32" \
  "--pipe 0" "--direct 0" "--exact --bits 16" "--expert-top-p 1"; do
  # shellcheck disable=SC2086
  "$k3" generate bundled --messages "$work/request.json" --temperature 0 --json $extra >"$work/two.json" || failed=1
  same "$(sed 's/"timings".*//' "$work/one.json")" "$(sed 's/"timings".*//' "$work/two.json")" "the answer with $extra"
done

# What it took from the drive is told: with one slot for experts, each token reads some.
"$k3" generate bundled --messages "$work/request.json" --temperature 0 --json --expert-gb 0 >"$work/timed.json" || failed=1
for number in prefill_read_bytes decode_read_bytes decode_read_bytes_per_token read_bytes; do
  grep -qE "\"$number\":[1-9]" "$work/timed.json" || { echo "FAILED  timings: $number: $(cat "$work/timed.json")"; failed=1; }
done

# A request file says what it would say to the server; flags win over it, and what has no effect is named.
ask() { # ask FIELDS [flags]: the question with these fields, as JSON
  local fields="$1"
  shift
  echo "{\"messages\":[{\"role\":\"user\",\"content\":\"What is the capital of France?\"}],$fields}" |
    "$k3" generate bundled --messages - --json "$@" 2>"$work/warned" | sed 's/"timings".*//'
}
greedy="$(sed 's/"timings".*//' "$work/one.json")"
same "$greedy" "$(ask '"temperature":0')" "temperature from the file"
same "$greedy" "$(ask '"temperature":2,"seed":3' --temperature 0)" "--temperature over the file's"
same "$greedy" "$(ask '"temperature":2,"top_k":1')" "top_k from the file"
same "$(ask '"temperature":1.7,"seed":5')" "$(ask '"seed":9' --temperature 1.7 --seed 5)" "seed from the file, and over it"
for field in max_tokens max_completion_tokens; do
  same '"finish_reason":"length",' "$(ask "\"temperature\":0,\"$field\":3" | grep -o '"finish_reason":"length",')" "$field from the file"
done
same "$greedy" "$(ask '"temperature":0,"max_tokens":3' --max-tokens 500)" "--max-tokens over the file's"
same '"content":"The capital of France is ",' "$(ask '"temperature":0,"stop":["Paris"]' | grep -o '"content":"[^"]*",')" "stop from the file"
same '"reasoning_content":null,' "$(ask '"temperature":0,"thinking":{"type":"disabled"}' | grep -o '"reasoning_content":null,')" "no thinking"
grep -q 'the field' "$work/warned" && { echo "FAILED  fields that count are warned of"; failed=1; }
ask '"temperature":0,"stream":true,"model":"x","mirostat":2,"response_format":{"type":"json_object"}' >/dev/null
grep -qF '"mirostat" has no effect' "$work/warned" || { echo "FAILED  no warning of mirostat"; failed=1; }
grep -qE 'stream|model"' "$work/warned" && { echo "FAILED  a warning of the transport: $(cat "$work/warned")"; failed=1; }
for bad in '"temperature":3' '"max_tokens":0' '"n":2' '"logprobs":true' '"stop":[1]' '"seed":"x"' '"logit_bias":{"99999999":1}' '"tools":3'; do
  name="${bad%%:*}"
  echo "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],$bad}" >"$work/bad.json"
  expect 1 "${name//\"/}" "$k3" generate bundled --messages "$work/bad.json"
done

# A budget ends the thinking, from the flag and from the file, and the answer follows.
for budget in 0 3; do
  budgeted="$(ask "\"temperature\":0,\"reasoning_budget\":$budget")"
  same "$budgeted" "$(ask '"temperature":0' --reasoning-budget "$budget")" "--reasoning-budget $budget"
  same "$budgeted" "$(ask '"temperature":0,"thinking_token_budget":500' --reasoning-budget "$budget")" "the flag over the file's budget"
  grep -q '"finish_reason":"stop"' <<<"$budgeted" || { echo "FAILED  no answer after a budget of $budget: $budgeted"; failed=1; }
  grep -q '"content":"[^"]' <<<"$budgeted" || { echo "FAILED  an empty answer after a budget of $budget: $budgeted"; failed=1; }
done
same '"reasoning_content":""' "$(ask '"temperature":0' --reasoning-budget 0 | grep -o '"reasoning_content":"[^"]*"')" "no thinking with a budget of 0"
same "$greedy" "$(ask '"temperature":0,"reasoning_budget":-1')" "a budget of -1 is none"
grep -q 'the field' "$work/warned" && { echo "FAILED  a budget is said to have no effect"; failed=1; }
expect 0 Paris "$k3" chat bundled --once 'What is the capital of France?' --temperature 0 --reasoning-budget 2
same "" "$("$k3" chat bundled --once 'What is the capital of France?' --temperature 0 --reasoning-budget 0 2>&1 >/dev/null)" "thinking with a budget of 0"
expect 2 "--reasoning-budget has no effect without --messages" "$k3" generate bundled --prompt x --reasoning-budget 3
for command in "chat bundled --once hi" "generate bundled --messages $work/request.json"; do
  # shellcheck disable=SC2086
  expect 2 "--reasoning-budget has no effect without thinking" "$k3" $command --reasoning-budget 3 --think off
  # shellcheck disable=SC2086
  expect 2 "--reasoning-budget: '-1' is not a whole number" "$k3" $command --reasoning-budget -1
done

# An answer that ended before it began is told from one that was cut off, with what helps.
cut="cut off while thinking, before the answer began: give it more --max-tokens"
expect 0 "$cut" "$k3" chat bundled --once 'What is the capital of France?' --temperature 0 --max-tokens 2
expect 0 "$cut" "$k3" generate bundled --messages "$work/request.json" --temperature 0 --max-tokens 2
expect 0 "$cut" "$k3" generate bundled --messages "$work/request.json" --temperature 0 --max-tokens 2 --json
expect 0 "(cut off: the limit of tokens is reached)" "$k3" chat bundled --once 'What is 1+1?' --temperature 0 --think off --max-tokens 2
same "" "$("$k3" generate bundled --prompt The --max-tokens 2 2>&1 >/dev/null)" "stderr of a text that reached its limit"

# What a request demands of its answer is enforced here too.
schema='{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}'
form="\"temperature\":0,\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"schema\":$schema}}"
grep -q '"content":"{\\"city\\"' <<<"$(ask "$form")" || { echo "FAILED  generate: response_format is not enforced: $(ask "$form")"; failed=1; }
tool='"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object"}}}],"tool_choice":"required","temperature":0'
grep -q '"finish_reason":"tool_calls"' <<<"$(ask "$tool")" || { echo "FAILED  generate: tool_choice is not enforced: $(ask "$tool")"; failed=1; }

first="$("$k3" generate bundled --prompt 'The' --seed 5 --max-tokens 12 --json | sed 's/"timings".*//')"
same "$first" "$("$k3" generate bundled --prompt 'The' --seed 5 --max-tokens 12 --json | sed 's/"timings".*//')" "the same seed"

expect 2 'nothing to answer' "$k3" chat bundled --once ''
expect 0 Paris "$k3" chat bundled --once 'What is the capital of France?' --temperature 0
same "$("$k3" chat bundled --once 'What is the capital of France?' --temperature 0 2>/dev/null)" \
  "$(echo 'What is the capital of France?' | "$k3" chat bundled --temperature 0 2>/dev/null)" "a piped message"
turns="$(printf 'My pet is a panda.\nWhat pet do I have?\n' | "$k3" chat bundled --temperature 0 --think off 2>/dev/null)"
[[ "$turns" == *panda* ]] || { echo "FAILED  the second turn does not know the first: $turns"; failed=1; }

# A message that is no text is reported by its line, and the next one is answered.
printf 'What is 1+1?\n\n\xff bad\nWhat is the capital of France?\n' >"$work/lines"
expect 1 "line 3 of standard input is not valid UTF-8" bash -c "'$k3' chat bundled --temperature 0 <'$work/lines'"
grep -q Paris "$work/out" || { echo "FAILED  the message after a bad one is not answered"; failed=1; }
printf 'What is the capital of France?\ncut short \xf0\x9f' >"$work/lines"
expect 1 "line 2 of standard input is not valid UTF-8, from byte 11" bash -c "'$k3' chat bundled --temperature 0 <'$work/lines'"
expect 1 "--once is not valid UTF-8" "$k3" chat bundled --once $'\xff'
expect 1 "--system is not valid UTF-8" "$k3" chat bundled --system $'a\xff' --once hi

expect 1 "context" "$k3" chat bundled --once 'What is the capital of France?' --max-context 8

expect 0 "kernels" "$k3" doctor
expect 0 "trunk          0.004 GB" "$k3" doctor bundled --seconds 0.1
expect 0 "trunk          0.002 GB" "$k3" doctor bundled --seconds 0.1 --bits 4 --mla-bits 4 --head-bits 4
expect 1 "no directory" "$k3" doctor /nowhere/at/all
grep -q "memory speed" "$work/out" && { echo "FAILED  doctor measures before it looks at the path"; failed=1; }
mkdir "$work/empty"
expect 1 "config.json" "$k3" doctor "$work/empty"
expect 0 "a token" "$k3" doctor bundled --seconds 0.2
expect 0 "" "$k3" verify bundled --full

"$k3" synth "$work/synth" --layers 4 --experts 8 --tiny --seed 3 >"$work/out" 2>&1 || { cat "$work/out"; failed=1; }
expect 0 "" "$k3" verify "$work/synth" --full
expect 0 "" "$k3" generate "$work/synth" --ids 1,2,3 --max-tokens 3

# As many experts a layer as the released model has.
"$k3" synth "$work/many" --layers 2 --experts 896 --tiny >"$work/out" 2>&1 || { cat "$work/out"; failed=1; }
expect 0 "clean" "$k3" verify "$work/many" --full
expect 0 '"finish_reason":"length"' "$k3" generate "$work/many" --ids 1,2,3 --max-tokens 3 --json
"$k3" logits "$work/many" --ids 1,2,3,4,5 --out "$work/logits.1" || failed=1
"$k3" logits "$work/many" --ids 1,2,3,4,5 --out "$work/logits.2" --chunk 2 --expert-gb 0 --threads 1 || failed=1
same "$(od -An -tx1 "$work/logits.1")" "$(od -An -tx1 "$work/logits.2")" "logits of 896 experts with one slot"

echo "$checked checks of the command line"
exit "$failed"
