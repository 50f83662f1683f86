#!/usr/bin/env bash
# The rules of HACKING.md that a few lines can check. Prints what breaks them; exit status 1 if anything does.
set -uo pipefail
cd "$(dirname "$0")/.."
broken=0

# forbid REASON PATTERN PATH...: no line of the files may match.
forbid() {
  local reason=$1 pattern=$2 found
  shift 2
  found=$(grep -rnE "$pattern" "$@")
  [ -z "$found" ] && return
  printf '%s:\n%s\n' "$reason" "$found"
  broken=1
}

includes='^#include "'
forbid "the public headers use the standard library and each other alone" '^#include ("[^m]|"m[^m]|<[a-z_/]+\.h)' include --exclude mmaemu.h
forbid "the model includes no engine, platform or call" "$includes(cpu|cuda|platform|call)/" src/model
forbid "an engine includes neither the model nor another engine" "$includes(model|cuda|platform|call)/" src/cpu
forbid "CUDA includes neither the model nor another engine" "$includes(model|cpu|call)/" src/cuda
forbid "the platform includes no engine and no call" "$includes(model|cpu|cuda|call)/" src/platform
forbid "the base includes nothing of what stands on it" "$includes(model|cpu|cuda|platform|call)/" src/base
forbid "intrinsics stay in src/cpu" '\b_mm[0-9]*_|immintrin|arm_neon|hwy/' include src/base src/model src/platform src/call python/bindings
forbid "the environment is read in src/platform alone" '\bgetenv\b' include src/base src/model src/cpu src/call python/bindings
forbid "the library reads no files" 'fstream>|\bfopen\b' include src
forbid "no OpenMP" 'omp\.h|pragma omp|OpenMP::' include src CMakeLists.txt

for compiler in g++ clang++; do
  command -v "$compiler" >/dev/null || continue
  for header in include/mmaemu/*.h; do
    "$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -Wconversion -Werror -Iinclude -x c++ - <<<"#include \"${header#include/}\"" ||
      { echo "$header does not compile alone with $compiler"; broken=1; }
  done
done
for compiler in gcc clang; do
  command -v "$compiler" >/dev/null || continue
  "$compiler" -std=c99 -fsyntax-only -Wall -Wextra -Wconversion -Wpedantic -Werror -Iinclude -x c - <<<'#include "mmaemu/mmaemu.h"' ||
    { echo "mmaemu.h is no C99 for $compiler"; broken=1; }
done
exit $broken
