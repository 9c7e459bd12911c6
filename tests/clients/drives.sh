#!/usr/bin/env bash
# drives.sh K3: the bundled model with its shards in several directories, in copies, and mapped: the answers of the model as it is; what cannot be
# is refused by name.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
k3="$1"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
source tests/clients/checks.sh
ids=1,2,3,5,8,13,21,34,55,89,144,233

# answers OUT MODEL FLAGS...: logits of a prompt, and what greedy decoding makes of it. Few experts fit, so that they are read again and again.
answers() {
  local out="$1" model="$2"
  shift 2
  "$k3" logits "$model" --ids "$ids" --out "$out.logits" --expert-gb 0.0001 "$@" 2>"$out.err" || fail "logits $model $*: $(cat "$out.err")"
  "$k3" generate "$model" --ids "$ids" --temperature 0 --max-tokens 24 --json --expert-gb 0.0001 "$@" 2>"$out.err" |
    sed 's/.*"ids":\(\[[0-9,]*\]\),"text.*/\1/' >"$out.ids"
  grep -q '^\[' "$out.ids" || fail "generate $model $*: $(cat "$out.err")"
}
# least MODEL FLAGS...: what --ram-gb may be at the least, and a little more.
least() {
  local megabytes
  megabytes="$("$k3" generate "$@" --ids 1 --expert-gb 0.0001 --ram-gb 0.05 2>&1 | sed -n 's/.*expected at least \([0-9]*\).*/\1/p')"
  echo "0.$((megabytes + 3))"
}
# same WHAT EXPECTED MODEL FLAGS...
same() {
  local what="$1" expected="$2"
  shift 2
  answers "$work/now" "$@"
  if cmp -s "$expected.logits" "$work/now.logits" && cmp -s "$expected.ids" "$work/now.ids"; then
    echo "ok      $what: the same answers"
  else
    fail "$what: other answers"
  fi
}

model="$work/model"
cp -r tools/mini/model "$model"
chmod -R u+w "$model"
mkdir "$work/a" "$work/b" "$work/none"
mapfile -t shards < <(cd "$model" && ls model-*.safetensors)
answers "$work/plain" "$model"

for ((i = 0; i < ${#shards[@]}; i++)); do # two thirds of the shards on other drives, a third there as well as here
  case $((i % 3)) in
    0) mv "$model/${shards[i]}" "$work/a/" ;;
    1) mv "$model/${shards[i]}" "$work/b/" ;;
    2) cp "$model/${shards[i]}" "$work/a/" && cp "$model/${shards[i]}" "$work/b/" ;;
  esac
done
dirs="$work/a,$work/b"
same "shards on three drives" "$work/plain" "$model" --dirs "$dirs"
K3_DIRS="$dirs" same "the same by K3_DIRS" "$work/plain" "$model"
same "part of the trunk streamed" "$work/plain" "$model" --dirs "$dirs" --ram-gb "$(least "$model" --dirs "$dirs")"
same "read by threads" "$work/plain" "$model" --dirs "$dirs,$model" --pipe 0 --direct 0
expect 1 "${shards[0]}" "$k3" generate "$model" --ids 1
expect 1 "missing" "$k3" verify "$model" --dirs "$work/b"
expect 0 "clean" "$k3" verify "$model" --dirs "$dirs" --full
expect 0 "with all copies" "$k3" doctor "$model" --dirs "$dirs" --seconds 0.1
expect 0 '"drive_gbps"' "$k3" bench io "$model" --dirs "$dirs" --seconds 0.05 --json
expect 0 "complete" "$k3" repack "$model" "$work/int8" --dirs "$dirs" --verify-full

expect 2 "--dirs" "$k3" generate "$model" --ids 1 --dirs "$work/a,,$work/b"
expect 2 "K3_DIRS" env K3_DIRS="$work/a," "$k3" generate "$model" --ids 1
expect 1 "$work/absent" "$k3" generate "$model" --ids 1 --dirs "$dirs,$work/absent"
expect 1 "named twice" "$k3" generate "$model" --ids 1 --dirs "$dirs,$work/b/../a"
expect 0 "no shard of the model lies in this directory [$work/none]" "$k3" generate "$model" --ids 1 --max-tokens 1 --dirs "$dirs,$work/none"
truncate -s -100 "$work/b/${shards[2]}"
same "a copy cut short" "$work/plain" "$model" --dirs "$dirs"
grep -qF "$work/b/${shards[2]}" "$work/now.err" || fail "the copy cut short is not named"
expect 1 "$work/b/${shards[2]}" "$k3" verify "$model" --dirs "$dirs"
cp "$model/${shards[5]}" "$work/b/${shards[2]}"
expect 1 "$work/b/${shards[2]}" "$k3" generate "$model" --ids 1 --dirs "$dirs"
grep -qF "$model/${shards[2]}" "$work/out" || fail "copies that differ: not both are named"
expect 1 "should be copies" "$k3" verify "$model" --dirs "$dirs"

# Mapped: the container that was made above against the same one read, and the original as it is stored.
answers "$work/read" "$work/int8"
same "a mapped container" "$work/read" "$work/int8" --mmap
K3_MMAP=1 same "the same by K3_MMAP" "$work/read" "$work/int8"
same "mapped, with less memory than the trunk takes" "$work/read" "$work/int8" --mmap --ram-gb "$(least "$work/int8" --mmap)"
same "a mapped original" "$work/plain" tools/mini/model --mmap
mkdir "$work/c" && mv "$work/int8/"model-00002-of-* "$work/c/"
same "a container on two drives, mapped" "$work/read" "$work/int8" --mmap --dirs "$work/c"
expect 1 "cannot be mapped" "$k3" generate tools/mini/model --ids 1 --mmap --bits 8
grep -qF "k3 repack" "$work/out" || fail "the refusal does not say what to do"
expect 1 "cannot be mapped" "$k3" generate "$work/int8" --ids 1 --mmap --bits 4 --dirs "$work/c"
expect 1 "cannot be mapped" "$k3" doctor tools/mini/model --mmap --mla-bits 8
expect 0 "mapped" "$k3" doctor tools/mini/model --mmap --seconds 0.1

exit "$failed"
