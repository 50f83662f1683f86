#!/usr/bin/env bash
# Makes build/dist: an sdist, and the wheel that it builds, repaired for manylinux. Installs the wheel into a fresh virtual
# environment where no compiler is found, and tries it there.
source "$(dirname "$0")/setup.sh"
need_packages g++ cmake ninja-build python3-venv libhwy-dev nlohmann-json3-dev git
python=$(find_python 3.11 3.12 3.13)
tools=$PWD/build/venv-release
[ -x "$tools/bin/python" ] || "$python" -m venv "$tools"
"$tools/bin/pip" install -q -r constraints/release.txt -r constraints/cuda.txt
nvcc=$(echo "$tools"/lib/python3*/site-packages/nvidia/cu13/bin/nvcc)
rm -rf build/dist
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# quietly COMMAND...: shows what it printed only if it fails.
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log"; return 1; }; }

export PIP_CONSTRAINT=$PWD/constraints/torch-2.7.1.txt # the build's own requirements, too
quietly "$tools/bin/python" -m build --sdist --outdir build/dist .
tar xf build/dist/*.tar.gz -C "$work"
if find "$work"/mmaemu-*/ -path '*/data/golden/*' -o -path '*/splitk/recorded/*' | grep .; then
  echo "the sdist holds recordings, which it does not need"
  exit 1
fi
quietly "$tools/bin/python" -m build --wheel -C cmake.define.MMAEMU_STATIC_RUNTIME=ON -C "cmake.define.MMAEMU_NVCC=$nvcc" --outdir "$work/wheel" "$work"/mmaemu-*/
quietly env PATH="$tools/bin:$PATH" auditwheel repair --strip --wheel-dir build/dist "$work"/wheel/*.whl
wheel=$(ls "$PWD"/build/dist/*.whl)
contents=$("$python" -m zipfile -l "$wheel")
for kernels in portable.fatbin fast.fatbin gated.fatbin manifest.json; do
  grep -q "mmaemu/cuda/$kernels " <<<"$contents" || { echo "the wheel has no $kernels"; exit 1; }
done
tag=$(grep -o 'manylinux_[0-9_]*_x86_64' <<<"$wheel")
grep -q "$tag" README.md || { echo "README.md does not name $tag, the tag of the wheel"; exit 1; }

"$python" -m venv "$work/fresh"
"$work/fresh/bin/pip" install -q --only-binary :all: "$wheel" numpy ml_dtypes
mkdir -p "$work/checkout/tests/data/golden"
cp -r examples "$work/checkout"
cp -r tests/data/golden/rtx4060 "$work/checkout/tests/data/golden"
(
  cd "$work/checkout"
  export PATH="$work/fresh/bin"
  for compiler in c++ g++ gcc cc clang++ cmake ninja; do
    if command -v $compiler; then exit 1; fi
  done
  python -m mmaemu info
  python -m mmaemu explain 1 2048 8192 --fast --out bfloat16
  python examples/numpy_products.py
)
# With torch, where an environment of the tests has one: behind the wheel's own packages.
if torch=$(.venv/bin/python -c 'import sysconfig, torch; print(sysconfig.get_path("purelib"))' 2>/dev/null); then
  echo "$torch" >"$("$work/fresh/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
  (cd "$work/checkout" && PATH="$work/fresh/bin" python examples/evo2_projection.py --tokens 0)
fi
ls -s --block-size=KiB build/dist
