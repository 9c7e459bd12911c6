#!/usr/bin/env bash
# instructions.sh [K3]: instructions of prefill and decode on a small checkpoint, counted by valgrind, so that a later version which
# does more work shows without a stopwatch. The avx2 tier: valgrind knows no wider one. The counts belong to the compiler that built K3.
#
#   bash tools/measure/instructions.sh build/release/k3 | diff tools/measure/instructions.txt -
#
# instructions.txt holds the counts of the release preset when the arithmetic last changed. A few per mille are noise (addresses, threads).
set -euo pipefail
k3="${1:-build/release/k3}"
command -v valgrind >/dev/null || {
  echo "instructions: valgrind is missing (Debian package valgrind)" >&2
  exit 1
}
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
"$k3" synth "$work/model" --layers 6 --experts 16 --tiny >/dev/null 2>&1

count() { # count NAME PROMPT_TOKENS OUTPUT_TOKENS: instructions of the whole program, in millions
  local ids
  ids="$(seq -s, 1 "$2")"
  K3_ISA=avx2 valgrind --tool=callgrind --callgrind-out-file=/dev/null "$k3" generate "$work/model" --ids "$ids" --max-tokens "$3" \
    --temperature 0 --threads 1 --direct 0 >/dev/null 2>"$work/log" || {
    cat "$work/log" >&2
    exit 1
  }
  sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$work/log"
}
short="$(count short 1 1)"
long="$(count prompt 129 1)"
more="$(count output 1 33)"
echo "prefill, instructions a token: $(((long - short) / 128))"
echo "decode, instructions a token: $(((more - short) / 32))"
