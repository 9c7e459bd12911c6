#!/usr/bin/env bash
# Prints how many compilers may run at once: one a core, and 2 GB of memory each (the largest translation units take about 1.5 GB).
set -euo pipefail
cores="$(nproc)"
kilobytes="$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)"
if [[ -r /sys/fs/cgroup/memory.max ]]; then
  limit="$(cat /sys/fs/cgroup/memory.max)"
  if [[ "$limit" != max && $((limit / 1024)) -lt "$kilobytes" ]]; then kilobytes=$((limit / 1024)); fi
fi
jobs=$((kilobytes / 2000000))
if [[ "$jobs" -lt 1 ]]; then jobs=1; fi
if [[ "$jobs" -gt "$cores" ]]; then jobs="$cores"; fi
echo "$jobs"
