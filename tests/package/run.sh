#!/usr/bin/env bash
# Installs a build, moves the prefix, and builds and runs examples/cpp against it: static, shared and through pkg-config.
# Then calls the shared library from C and from ctypes, looks at what it exports, and runs the installed command.
# Usage: run.sh BUILD_DIR
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
build_dir=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build_dir" --prefix "$work/installed" >/dev/null
mv "$work/installed" "$work/moved"

for kind in static shared; do
  cmake -S "$source_dir/examples/cpp" -B "$work/$kind" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_PREFIX_PATH="$work/moved" -DMMAEMU_KIND=$kind >/dev/null
  cmake --build "$work/$kind" >/dev/null
  "$work/$kind/compare_platforms" | tee "$work/$kind.txt"
done
cmp "$work/static.txt" "$work/shared.txt"

pc=$(dirname "$(find "$work/moved" -name mmaemu.pc)")
# shellcheck disable=SC2046
g++ -std=c++20 "$source_dir/examples/cpp/compare_platforms.cpp" -o "$work/by_pkg_config" \
  $(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs mmaemu) -Wl,-rpath,"$(dirname "$pc")"
"$work/by_pkg_config" | cmp - "$work/static.txt"

# shellcheck disable=SC2046
gcc -std=c99 -Wall -Wextra -Wpedantic -Werror "$source_dir/tests/c/c_api_test.c" -o "$work/from_c" \
  $(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs mmaemu) -Wl,-rpath,"$(dirname "$pc")"
"$work/from_c"

library=$(find "$work/moved" -name 'libmmaemu.so.*.*.*')
python3 "$source_dir/tests/c/ctypes_test.py" "$library"
exported=$(nm -D --defined-only "$library" | awk '{print $3}' | c++filt | grep -v '^MMAEMU_0')
if others=$(grep -vE '^mmaemu(@@MMAEMU_0\.2)?::[A-Za-z]|^mmaemu_[a-z_]+@@MMAEMU_0\.2$' <<<"$exported"); then
  printf 'exported, and not of mmaemu:\n%s\n' "$others"
  exit 1
fi
if internal=$(grep -E '^mmaemu::[a-z_]+::' <<<"$exported" | grep -v '^mmaemu::AccumulationPlan::'); then
  printf 'exported, and not public:\n%s\n' "$internal"
  exit 1
fi
grep -q '^mmaemu::scaled_mm(' <<<"$exported"
declared=$(grep -oE '\bmmaemu_[a-z_]+\(' "$source_dir/include/mmaemu/mmaemu.h" | tr -d '(' | sort -u)
[ "$declared" = "$(grep -oE '^mmaemu_[a-z_]+' <<<"$exported" | sort -u)" ] || { echo "mmaemu.h and the exported C functions differ"; exit 1; }
if grep -qE '^MMAEMU_BUILD_COMMAND:BOOL=(ON|1|TRUE)$' "$build_dir/CMakeCache.txt"; then
  env -i "$work/moved/bin/mmaemu" explain 1 2048 8192 --fast --out bf16 | grep -q '^split  *S = 2, contiguous'
fi
echo "$(wc -l <<<"$exported") symbols exported, all public"
