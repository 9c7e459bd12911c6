#!/usr/bin/env bash
# run.sh K3 [MODEL]: installs npm tiktoken beside this file and compares. MODEL defaults to the small trained model.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
k3="$(realpath "$1")"
model="$(realpath "${2:-$here/../../../tools/mini/model}")"
cd "$here"
npm ci --no-audit --no-fund --ignore-scripts
node compare.mjs "$k3" "$model"
