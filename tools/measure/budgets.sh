#!/usr/bin/env bash
# budgets.sh K3 MODEL CONTAINER [BITS]: the same tokens in any amount of memory, from a model and from its container: whether they are
# the same, what memory it took, and how near decoding came to its bound. CONTAINER is what `k3 repack MODEL CONTAINER --bits BITS` made.
set -euo pipefail
k3="$1" model="$2" container="$3" bits="${4:-8}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
first=""
failed=0
printf '%-44s %9s %9s %9s %7s  %s\n' "" "tokens/s" "drive" "GB taken" "ratio" "ids"

# run GB MODEL FLAGS...: GB is the budget, 0 for what the machine has.
run() {
  local budget="$1"
  shift
  local flags=(--tokens 24 --json)
  [[ "$budget" != 0 ]] && flags+=(--ram-gb "$budget")
  "$k3" bench decode "$@" "${flags[@]}" >"$work/out" 2>"$work/err" || { cat "$work/err" >&2; exit 1; }
  local line
  line="$(/usr/bin/python3 - "$work/out" "$budget" <<'PY'
import hashlib, json, sys
d = json.load(open(sys.argv[1], encoding="utf-8"))
r = d["results"][0]
drive = d["machine"].get("drive_gbps")
share = "%.2f" % (r["drive_gbps"] / drive) if drive and "drive_gbps" in r else "-"
taken = r["peak_rss_bytes"] / 1e9
over = " OVER THE BUDGET" if float(sys.argv[2]) and taken > float(sys.argv[2]) else ""
print("%9.2f %9s %9.2f %7.3f  %s%s" % (r["tokens_per_s"], share, taken, r["ratio"],
      hashlib.sha256(json.dumps(r["ids"]).encode()).hexdigest()[:16], over))
PY
)"
  local ids
  ids="$(awk '{print $5}' <<<"$line")"
  [[ -z "$first" ]] && first="$ids"
  [[ "$ids" == "$first" && "$line" != *OVER* ]] || failed=1
  printf '%-44s %s\n' "$(basename "$1")${*:2} --ram-gb $budget" "$line"
}

run 0 "$model" --bits "$bits"
run 0 "$container"
run 0 "$container" --mmap
run 0 "$container" --expert-gb 1.2
run 0 "$container" --expert-gb 1.2 --predict off
for budget in 4 8 12 16; do run "$budget" "$container"; done
run 4 "$container" --predict off
run 8 "$container" --mmap

# Two drives: every other shard in one directory, all of them in the other.
mkdir "$work/half"
for shard in "$container"/*.safetensors; do
  number="$(basename "$shard" | tr -dc 0-9)"
  (( 10#${number:0:5} % 2 )) && ln -s "$(realpath "$shard")" "$work/half/"
done
run 8 "$container" --dirs "$work/half"
exit "$failed"
