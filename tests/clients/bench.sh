#!/usr/bin/env bash
# bench.sh K3: `k3 bench` says what it promises to say, in numbers that can be. Not how fast anything is: that is the machine's affair.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
k3="$1"
python=/usr/bin/python3
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
failed=0

# check WHAT FIELDS COMMAND...: one JSON object; python looks at it with `machine`, `results` and the fields each result must have.
check() {
  local what="$1" code=0
  shift
  timeout 300 "$k3" bench "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
  # A bound that was measured too low while something else ran is said by exit 1; its numbers are whole all the same.
  if [[ "$code" -gt 1 ]] || ! "$python" - "$what" "$work/out" <<'PY'; then
import json, math, sys

what, path = sys.argv[1:]
text = open(path, encoding="utf-8").read()
assert text.endswith("}\n") and text.count("\n") == 1, "not one line"
document = json.loads(text)
machine, results = document.get("machine"), document["results"]


def numbers(value):
    if isinstance(value, dict):
        return [n for member in value.values() for n in numbers(member)]
    if isinstance(value, list):
        return [n for item in value for n in numbers(item)]
    return [value] if isinstance(value, (int, float)) and not isinstance(value, bool) else []


def positive(where, *names):
    for name in names:
        assert where[name] > 0, f"{name} is {where[name]}"


assert results and all(math.isfinite(n) for n in numbers(document)), "a number that is none, or nothing"
assert "null" not in text
if what == "io":
    positive(machine, "drive_gbps")
    assert {r["depth"] for r in results} == {1, 4, 16, 32} and len({r["block_bytes"] for r in results}) == 3 and len(results) == 12
    for r in results:
        positive(r, "gbps")
    assert max(r["gbps"] for r in results) == machine["drive_gbps"]
elif what not in ("cache", "estimates"):
    positive(machine, "threads", "ram_gbps", "int8_tops", "bf16_tflops")
    assert machine["isa"] and machine["bf16_unit"] and machine["int8_unit"]
if what.startswith("kernels"):
    assert document["quick"] is True
    want = {"kernels": 8, "kernels of one name": 2}[what]
    assert len(results) == want, f"{len(results)} results"
    for r in results:
        positive(r, "rows", "ms", "gbps", "gflops", "ratio")
        assert 0 < r["best_ms"] <= r["ms"]
        assert r["bound"] in ("ram", "compute") and r["isa"] == machine["isa"]
        times = r["gbps"] * r["ms"] / 1e3 / machine["ram_gbps"], r["gflops"] * r["ms"] / 1e6 / machine["bf16_tflops"]  # seconds
        assert abs(max(times) / (r["ms"] / 1e3) / r["ratio"] - 1) < 1e-6, r
    if what == "kernels of one name":
        assert [(r["name"], r["rows"]) for r in results] == [("int8", 1), ("int8", 3)] and machine["isa"] == "scalar"
if what == "cache":
    assert document["tokens"] == 12 and len(document["repeated_by_rank"]) > 0 and len(results) > 3
    for earlier, later in zip(results, results[1:]):
        assert earlier["slots"] < later["slots"] and earlier["best"] <= later["best"]
    for r in results:
        assert all(0 <= r[name] <= r["best"] for name in ("lru-global", "lru", "lfu", "s3-fifo", "arc", "k3")), r
    assert results[-1]["lru"] == results[-1]["k3"] == results[-1]["best"] > 0
if what == "estimates":
    (r,) = results
    assert len(r["requests"]) == 3
    for request in r["requests"]:
        positive(request, "prompt_tokens", "answer_tokens", "told_s", "took_s")
    errors = sorted(abs(q["told_s"] / q["took_s"] - 1) for q in r["requests"])
    assert abs(errors[1] - r["median_error"]) < 1e-9
if what.startswith(("prefill", "decode")):
    (r,) = results
    positive(r, "tokens", "tokens_per_s", "wall_s", "peak_rss_bytes")
    assert abs(r["tokens"] / r["wall_s"] / r["tokens_per_s"] - 1) < 1e-9
    assert 0 <= r["expert_hit_rate"] <= 1 and r["bytes_per_token"] >= 0
    assert r["tokens"] == (64 if what == "prefill" else 8)
    # What is waited for is neither computed nor lost.
    assert 0 < r["serial_s"] <= r["compute_s"] <= r["compute_s"] + r["wait_s"] <= r["wall_s"] * 1.001
    if what == "prefill":
        positive(r, "ratio", "operations_per_token")
    else:
        assert len(r["ids"]) == 8 and all(isinstance(i, int) for i in r["ids"])
        positive(r, "ratio", "ram_bytes_per_token")
    if what == "decode of recorded choices":
        # Eleven recorded tokens in turn: what was imposed is what was read.
        assert 0 < r["expert_hit_rate"] < 1 and r["repeated_share"] > 0 and 0 < r["prefetch_recall"] <= 1
        assert r["wasted_bytes"] == 0, "a meter reads nothing"
    if what.startswith("decode "):
        positive(machine, "drive_gbps")
        positive(r, "read_s", "wait_s", "needed_bytes", "bound_s", "drive_gbps", "bytes_per_token")
        assert abs(r["bound_s"] / r["wall_s"] / r["ratio"] - 1) < 1e-9 and r["bound"] == "drive"
    else:
        # All experts of the bundled model fit, so they were there.
        assert r["all_experts_resident"] and r["expert_hit_rate"] == 1 and r["bytes_per_token"] == r["needed_bytes"] == 0
PY
    echo "FAILED  $what: exit $code: $(head -c 600 "$work/out") $(head -c 600 "$work/err")"
    failed=1
  else
    echo "ok      $what"
  fi
}
# refused WORD ARGUMENT...
refused() {
  local word="$1" code=0
  shift
  timeout 60 "$k3" bench "$@" >"$work/out" 2>&1 </dev/null || code=$?
  if [[ "$code" -ne 2 ]] || ! grep -qF -- "$word" "$work/out"; then
    echo "FAILED  bench $*: exit $code, expected 2 and '$word' in: $(head -c 400 "$work/out")"
    failed=1
  fi
}

check "kernels" kernels --quick --rows 1 --json
check "kernels of one name" kernels --quick --only int8 --rows 1,3 --threads 1 --isa scalar --json
check "io" io bundled --seconds 0.1 --json
check "prefill" prefill bundled --tokens 64 --json
check "decode" decode bundled --tokens 8 --json
check "estimates" estimates bundled --requests 3 --prompt 30 --answer 9 --json
check "decode from the drive" decode bundled --tokens 8 --expert-gb 0 --json

ids=1539,349,372,1280,405,33,987,1101,45,678,901,234
"$k3" logits bundled --ids "$ids" --routes "$work/routes.json" 2>/dev/null || failed=1
"$k3" logits bundled --ids "$ids" --routes "$work/one-by-one.json" --chunk 1 --expert-gb 0 2>/dev/null || failed=1
cmp "$work/routes.json" "$work/one-by-one.json" || failed=1
check "cache" cache "$work/routes.json" --json
check "decode of recorded choices" decode bundled --tokens 8 --expert-gb 0.001 --predict meter \
  --route-trace "$work/routes.json" --json
echo '{"tokens":[[[1,2],[3]]]}' >"$work/uneven.json"
for broken in "$work/uneven.json" "$work/no-such-file.json" /dev/null; do
  if "$k3" bench cache "$broken" >"$work/out" 2>&1 || ! grep -qF "$broken" "$work/out"; then
    echo "FAILED  bench cache $broken: $(head -c 400 "$work/out")"
    failed=1
  fi
done
refused "--slots" cache "$work/routes.json" --slots 0
refused "TRACE" cache
refused "--predict" decode bundled --predict maybe

refused "subcommand"
refused "sing" sing
refused "sing" kernels sing
refused "--rows" kernels --rows 0
refused "--rows" kernels --rows 1,many
refused "--only" kernels --only int7
refused "--isa" kernels --isa mmx
refused "--threads" kernels --threads 0
refused "MODEL" io
refused "--seconds" io bundled --seconds 0
refused "MODEL" decode --json
refused "--tokens" decode bundled --tokens many
refused "--tokens" prefill bundled --tokens 010
refused "--chunk" prefill bundled --chunk 0
export K3_CHUNK=many
refused "K3_CHUNK" decode bundled
exit "$failed"
