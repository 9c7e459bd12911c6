#!/usr/bin/env bash
# bad_checkpoint.sh K3: a checkpoint that cannot work ends `k3 serve` within seconds, with exit 1 and a message that names the culprit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
k3="$1"
good=tools/mini/model
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
failed=0

# expect WHAT WORD: serves $work/model; the message must contain WORD.
expect() {
  local what="$1" word="$2" code=0
  timeout 30 "$k3" serve "$work/model" --port 0 >"$work/out" 2>"$work/err" </dev/null || code=$?
  if [[ "$code" -eq 1 ]] && grep -qF -- "$word" "$work/err"; then
    echo "ok      $what: $(tail -n 1 "$work/err" | cut -c1-160)"
  else
    echo "FAILED  $what: exit $code, expected 1 and '$word' in: $(cat "$work/err")"
    failed=1
  fi
}
fresh() {
  rm -rf "$work/model"
  cp -r "$good" "$work/model"
  chmod -R u+w "$work/model"
}
shard() { ls "$work/model" | grep -F "model-0000$1-of-"; }

fresh; victim="$(shard 3)"; rm "$work/model/$victim"
expect "missing shard" "$victim"

fresh; victim="$(shard 4)"; truncate -s -1000 "$work/model/$victim"
expect "short shard" "$victim"

fresh; victim="$(shard 5)"; printf 'XXXX' | dd of="$work/model/$victim" bs=1 seek=12 conv=notrunc status=none
expect "header that is no JSON" "$victim"

fresh; victim="$(shard 6)"; printf '\377\377\377\377\377\377\377\177' | dd of="$work/model/$victim" bs=1 conv=notrunc status=none
expect "header length beyond the file" "$victim"

fresh; sed -i 's/"model_type": *"kimi_k3"/"model_type": "llama"/' "$work/model/config.json"
expect "another model family" "llama"

fresh; sed -i 's/"hidden_size": *160/"hidden_size": 192/' "$work/model/config.json"
expect "config that contradicts the tensors" "192"

fresh; sed -i '/"num_experts":/d' "$work/model/config.json"
expect "config without a key" "num_experts"

fresh; echo '{' >"$work/model/config.json"
expect "config that is no JSON" "config.json"

fresh; rm "$work/model/tiktoken.model"
expect "no vocabulary" "tiktoken.model"

fresh; rm "$work/model/model.safetensors.index.json"
expect "no index" "index"

rm -rf "$work/model"
expect "no directory" "$work/model"
exit "$failed"
