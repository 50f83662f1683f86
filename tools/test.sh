#!/usr/bin/env bash
# Installs what is missing, builds from clean and runs every suite. Prints the time of each and which were not run.
source "$(dirname "$0")/setup.sh"

summary=()
# suite NAME COMMAND...: runs it; the first failing suite ends the run.
suite() {
  local name=$1 begin=$SECONDS
  shift
  printf '\n== suite: %s\n' "$name"
  "$@"
  summary+=("$(printf '%5d s  %s' $((SECONDS - begin)) "$name")")
}
not_run() { summary+=("not run  $1"); }

install() {
  warn_of_space 16
  need_packages g++ cmake ninja-build pkg-config clang-format python3-venv \
    libhwy-dev libgtest-dev nlohmann-json3-dev libzip-dev \
    libbenchmark-dev libcli11-dev g++-aarch64-linux-gnu qemu-user doxygen
  rm -rf build/release build/sanitize build/aarch64 build/python build/venv-2.*
  environment .venv "$(find_python 3.11 3.12 3.13)" 2.7.1 -r constraints/cuda.txt pytest hypothesis ruff safetensors torchao distributed matplotlib mypy
}

style() {
  git ls-files -z '*.h' '*.c' '*.cpp' '*.cu' | xargs -0 clang-format --dry-run -Werror
  .venv/bin/ruff format --check .
  .venv/bin/ruff check .
  .venv/bin/mypy
  .venv/bin/mypy tests/python/typed_program.py
  tools/check_architecture.sh
  .venv/bin/python tools/pack_splitk.py data/splitk/recorded data/splitk --check
}

# cpp PRESET OPTION...
cpp() {
  cmake --preset "$@" >/dev/null
  cmake --build --preset "$1"
  ctest --preset "$1"
}

# python_tests TORCH VERSION...: the Python tests with a torch version, on the first interpreter found, in an environment
# that is removed when they have passed: each takes 5 GB.
python_tests() {
  local torch=$1 python folder=build/venv-$1
  shift
  if ! python=$(find_python "$@"); then
    not_run "Python tests, torch $torch: none of Python $* found"
    return
  fi
  CMAKE_ARGS=-DMMAEMU_NVCC=OFF environment "$folder" "$python" "$torch" pytest hypothesis safetensors distributed
  "$folder/bin/python" -m pytest -q
  rm -rf "$folder"
}

suite "packages, torch 2.7.1, build of the Python package" install
suite "style, types and generated data" style
suite "C++ tests, optimised" cpp release -DMMAEMU_BUILD_BENCHMARKS=ON
suite "CUDA kernels, as compiled" .venv/bin/python tools/kernel_report.py --check --architectures 75,80,86,89,90,100,120
suite "C++ tests, under sanitizers" cpp sanitize
suite "CPU engine, 64-bit Arm under qemu" cpp aarch64
export MMAEMU_COMMAND=$PWD/build/release/command/mmaemu
suite "Python tests, torch 2.7.1" .venv/bin/python -m pytest -q
suite "Python tests, torch 2.6.0" python_tests 2.6.0 3.10 3.11 3.12 3.13
suite "Python tests, torch 2.15.0" python_tests 2.15.0 3.13 3.12 3.11
suite "documentation site" tools/site.sh
suite "quick start, in a fresh clone" tests/package/quick_start.sh
suite "sdist and wheel" tools/release.sh
suite "example: Evo 2 projections" .venv/bin/python examples/evo2_projection.py --tokens 64
suite "example: transformer" .venv/bin/python examples/transformer.py

printf '\nEvery suite passed:\n'
printf '%s\n' "${summary[@]}"
