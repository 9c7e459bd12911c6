#!/usr/bin/env bash
# hog.sh K3 MODEL [FLAGS...]: tokens a second of `k3 bench decode` alone and beside a program that never rests, in turns, and the
# ratio of the medians.
set -euo pipefail
k3="$1" model="$2"
shift 2

hog=""
trap '[[ -z "$hog" ]] || kill "$hog"' EXIT
speed() { "$k3" bench decode "$model" --tokens 48 --json "$@" 2>/dev/null | sed 's/.*"tokens_per_s":\([0-9.]*\).*/\1/'; }
median() { sort -g | sed -n 3p; }

alone=() beside=()
for _ in 1 2 3 4 5; do
  alone+=("$(speed "$@")")
  (while :; do :; done) &
  hog=$!
  beside+=("$(speed "$@")")
  kill "$hog"
  wait "$hog" 2>/dev/null || true
  hog=""
done
a="$(printf '%s\n' "${alone[@]}" | median)" b="$(printf '%s\n' "${beside[@]}" | median)"
echo "alone ${alone[*]}; beside a hog ${beside[*]} tokens/s; ratio of the medians $(awk "BEGIN { printf \"%.2f\", $b / $a }")"
