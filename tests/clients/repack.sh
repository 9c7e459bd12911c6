#!/usr/bin/env bash
# repack.sh K3 [MODEL...]: containers of the bundled and the tiny model (or of the models named): the answers of the original at the same bits,
# the same bytes after kills at random moments and on disks that fill, and a flipped byte that verify finds. K3_KILLS sets the kills a model.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
k3="$1"
shift
models=("$@")
[[ "${#models[@]}" -gt 0 ]] || models=(tools/mini/model tests/data/tiny/model)
work="$(mktemp -d)"
small="$work/small" # a disk of its own, where one may be had
trap 'umount "$small" 2>/dev/null; rm -rf "$work"' EXIT
source tests/clients/checks.sh
ids=1,2,3,5,8,13,21,34,55,89,144,233

digest() { (cd "$1" && sha256sum -- * | sha256sum); }
# answers MODEL OUT FLAGS...: logits of a prompt, and what greedy decoding makes of it.
answers() {
  local model="$1" out="$2"
  shift 2
  "$k3" logits "$model" --ids "$ids" --out "$out.logits" "$@" &&
    "$k3" generate "$model" --ids "$ids" --temperature 0 --max-tokens 12 --json "$@" |
    sed 's/.*"ids":\(\[[0-9,]*\]\),"text.*/\1/' >"$out.ids"
}
# same_answers MODEL CONTAINER FLAGS...: the original at FLAGS, the container as it is.
same_answers() {
  local model="$1" container="$2"
  shift 2
  answers "$model" "$work/original" "$@" && answers "$container" "$work/prepared" || fail "no answer of $model or its container"
  cmp -s "$work/original.logits" "$work/prepared.logits" || fail "$model at $*: logits differ from its container's"
  grep -q '^\[' "$work/original.ids" && cmp -s "$work/original.ids" "$work/prepared.ids" || fail "$model at $*: other ids"
}

# Kills `repack MODEL DST` at random moments of the time a whole run takes, every third time as a terminal would, then lets it finish.
killed() {
  local model="$1" whole="$2" out="$3" begun ended
  begun="$(date +%s%N)"
  "$k3" repack "$model" "$work/timed" >/dev/null || fail "repack $model"
  ended="$(date +%s%N)"
  rm -rf "$work/timed"
  local signal count=0
  for ((i = 0; i < ${K3_KILLS:-10}; i++)); do
    signal=KILL
    ((i % 3 == 2)) && signal=INT
    # Within the first half of a whole run's time: what is still to be done shrinks from kill to kill. In microseconds, and never 0, which
    # would mean no limit.
    local delay=$(((ended - begun) / 1000 * (RANDOM % 1000) / 1000 / 2 + 1)) code=0
    local seconds
    seconds="$((delay / 1000000)).$(printf '%06d' $((delay % 1000000)))"
    # The shell would report each kill.
    { timeout -s "$signal" "$seconds" "$k3" repack "$model" "$out" >"$work/out" 2>&1 || code=$?; } 2>/dev/null
    [[ "$code" -eq 124 || "$code" -eq 137 ]] && count=$((count + 1))
  done
  [[ "$count" -gt 0 ]] || fail "$model: no kill came in time"
  expect 0 "complete" "$k3" repack "$model" "$out" --verify-full
  # A partial file belongs to a shard that was then made; none may be left.
  compgen -G "$out/*.partial" >/dev/null && fail "$model: partial files are left: $(ls "$out")"
  [[ "$(digest "$out")" == "$(digest "$whole")" ]] || fail "$model: after $count kills the container differs"
  echo "ok      $model: $count kills, then the same bytes"
}

# kept OUT WHOLE: OUT has some of the shards of WHOLE, each of them whole, and nothing half done.
kept() {
  local out="$1" whole="$2" shard count=0
  compgen -G "$out/*.partial" >/dev/null && fail "a full disk leaves partial files: $(ls "$out")"
  for shard in "$out"/model-*.safetensors; do
    [[ -e "$shard" ]] || continue
    cmp -s "$shard" "$whole/${shard##*/}" || fail "a full disk leaves a shard that is not whole: $shard"
    count=$((count + 1))
  done
  [[ "$count" -gt 0 ]] || fail "a full disk took the shards that were finished"
  [[ ! -e "$out/model.safetensors.index.json" ]] || fail "a full disk leaves an index of shards that are not there"
}

# Files may grow to less than a shard's size; then a disk that takes so many files and no more.
full() {
  local model="$1" whole="$2" out="$3" sizes largest=0 first=0 size
  sizes="$(cd "$whole" && stat -c %s model-*.safetensors)"
  # Larger than the first, so that there is something to keep.
  for size in $sizes; do
    [[ "$first" -ne 0 ]] || first="$size"
    [[ "$size" -le "$largest" ]] || largest="$size"
  done
  [[ $((largest / 1024)) -gt $((first / 1024 + 1)) ]] || fail "$model: no shard is larger than the first"
  expect 1 "File too large" bash -c "ulimit -f $(((largest - 1) / 1024)) && exec '$k3' repack '$model' '$out'"
  grep -q '\.partial\]' "$work/out" && grep -q 'finished shards are kept' "$work/out" || fail "a full disk: $(cat "$work/out")"
  kept "$out" "$whole"
  expect 0 "were there already" "$k3" repack "$model" "$out"
  [[ "$(digest "$out")" == "$(digest "$whole")" ]] || fail "$model: resumed after a full disk the container differs"
  rm -r "$out"

  mkdir "$small"
  if ! mount -t tmpfs -o size=256m,nr_inodes=9 none "$small" 2>/dev/null; then
    rmdir "$small"
    echo "skipped $model: a disk without room, which takes the right to mount one"
    return
  fi
  expect 1 "No space left on device" "$k3" repack "$model" "$small/out"
  kept "$small/out" "$whole"
  mount -o remount,nr_inodes=900 "$small"
  expect 0 "were there already" "$k3" repack "$model" "$small/out"
  [[ "$(digest "$small/out")" == "$(digest "$whole")" ]] || fail "$model: resumed after a full disk the container differs"
  umount "$small"
  rmdir "$small"
  echo "ok      $model: disks that fill, then the same bytes"
}

flipped() { # a byte in the middle of a shard's last tensors
  local container="$1" victim
  victim="$(cd "$container" && ls model-*.safetensors | sed -n 2p)"
  local at=$(($(stat -c %s "$container/$victim") - 40))
  local byte
  byte="$(od -An -tu1 -j "$at" -N 1 "$container/$victim")"
  printf "\\x$(printf '%02x' $((byte ^ 4)))" | dd of="$container/$victim" bs=1 seek="$at" conv=notrunc status=none
  expect 1 "$victim" "$k3" verify "$container" --full
  grep -q "tensor model\.layers\.1\." "$work/out" || fail "the tensor is not named: $(cat "$work/out")"
  echo "ok      $(tail -n 1 "$work/out" | cut -c1-150)"
  rm "$container/$victim"
  expect 0 "1 shards written" "$k3" repack "$2" "$container"
  expect 0 "clean" "$k3" verify "$container" --full
}

# kept_for_later MODEL: a trunk without its experts; and one that --cache keeps, the second time too, and mapped.
kept_for_later() {
  local how
  answers "$1" "$work/rounded" --bits 8 || fail "$1 at --bits 8"
  expect 0 "complete" "$k3" repack "$1" "$work/trunk" --trunk-only
  answers "$work/trunk" "$work/kept" --dirs "$1" || fail "$1: a trunk alone"
  cmp -s "$work/rounded.logits" "$work/kept.logits" && cmp -s "$work/rounded.ids" "$work/kept.ids" || fail "$1: a trunk alone answers otherwise"
  for how in "" "" "--mmap"; do
    # shellcheck disable=SC2086 # none or one
    XDG_CACHE_HOME="$work/cache" answers "$1" "$work/kept" --bits 8 --cache user $how || fail "$1 with --cache $how"
    cmp -s "$work/rounded.logits" "$work/kept.logits" && cmp -s "$work/rounded.ids" "$work/kept.ids" || fail "$1: --cache $how changes the answer"
  done
  [[ "$(ls "$work/cache/k3" | wc -l)" -eq 1 ]] || fail "one folder of kept weights expected: $(ls "$work/cache/k3")"
  expect 2 "neither" "$k3" generate "$1" --ids 1 --cache somewhere
  expect 0 "keeping the rounded weights failed" "$k3" generate "$1" --ids 1 --max-tokens 1 --bits 8 --cache /dev/null/x
  echo "ok      $1: weights kept by --cache give the same answers"
}

for model in "${models[@]}"; do
  expect 0 "complete" "$k3" repack "$model" "$work/int8" --verify-full
  expect 0 "held against their checksums" "$k3" verify "$work/int8" --full
  same_answers "$model" "$work/int8" --bits 8
  expect 0 "complete" "$k3" repack "$model" "$work/int4" --bits 4 --mla-bits 4 --head-bits 8
  same_answers "$model" "$work/int4" --bits 4 --mla-bits 4 --head-bits 8
  expect 0 "complete" "$k3" repack "$model" "$work/released" --bits 16
  same_answers "$model" "$work/released" --bits 16
  echo "ok      $model: the answers of the original in 8, 4 and 16 bits"

  answers "$work/int8" "$work/downcast" --bits 4 || fail "an int8 container at --bits 4"
  expect 1 "at most 8 bits" "$k3" generate "$work/int8" --ids 1 --bits 16
  expect 1 "at most 4 bits" "$k3" generate "$work/int4" --ids 1 --bits 8
  expect 1 "rounded already" "$k3" generate "$work/int8" --ids 1 --exact
  expect 1 "other bits" "$k3" repack "$model" "$work/int8" --bits 4
  expect 1 "over its source" "$k3" repack "$work/int8" "$work/int8"
  expect 2 "--bits: '5'" "$k3" repack "$model" "$work/never" --bits 5
  expect 2 "--shards" "$k3" repack "$model" "$work/never" --shards 5-2
  expect 0 "the index follows" "$k3" repack "$model" "$work/apart" --shards 2-3
  expect 0 "complete" "$k3" repack "$model" "$work/apart"
  [[ "$(digest "$work/apart")" == "$(digest "$work/int8")" ]] || fail "$model: shards made apart differ"
  expect 0 "trunk" "$k3" doctor "$work/int8" --seconds 0.1

  kept_for_later "$model"

  killed "$model" "$work/int8" "$work/killed"
  full "$model" "$work/int8" "$work/full"
  flipped "$work/killed" "$model"
  rm -rf "${work:?}"/*
done
exit "$failed"
