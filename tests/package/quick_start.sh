#!/usr/bin/env bash
# Follows docs/quick_start.md as a newcomer does: the blocks titled "In a checkout", in a fresh clone. The other blocks
# run in tests/python/test_guides.py.
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone -q "$source_dir" "$work/mmaemu"
cd "$work/mmaemu"
awk '/^```bash title="In a checkout"$/ {shown = 1; next} /^```$/ {shown = 0} shown' docs/quick_start.md >"$work/commands.sh"
bash -euo pipefail "$work/commands.sh" | tee "$work/printed.txt"
grep -q "accumulators are the recorded bits" "$work/printed.txt"
grep -q "outputs differ between the RTX 4060 and the H100 PCIe" "$work/printed.txt"
test -s build/y.npy
