# Sourced by demo.sh and test.sh: installs what Debian 12 lacks to build and run the project, and makes virtual environments.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

# warn_of_space GIGABYTES: says so where less disk is free in this folder or in that of temporary files.
warn_of_space() {
  local folder free
  for folder in "$PWD" "${TMPDIR:-/tmp}"; do
    free=$(($(df --output=avail -B1000000000 "$folder" | tail -1)))
    [ "$free" -ge "$1" ] && continue
    echo "Warning: $free GB of disk are free in $folder; torch and its CUDA libraries may need up to $1 GB of it. If the disk" \
      "runs full, free some, or set TMPDIR to a folder on a larger one." >&2
  done
}

# need_packages PACKAGE...: installs those that are missing, as root or through sudo.
need_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q "ok installed" || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  echo "Installing ${missing[*]}"
  local as_root=()
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
}

# find_python VERSION...: prints the first interpreter of these versions that runs and can make a virtual environment.
find_python() {
  local version candidate
  for version in "$@"; do
    for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python; do
      if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
        echo "$candidate"
        return
      fi
    done
  done
  return 1
}

# environment FOLDER PYTHON TORCH PACKAGE...: a virtual environment with torch, the packages and mmaemu built from this checkout.
environment() {
  local folder=$1 python=$2 constraints=constraints/torch-$3.txt
  shift 3
  [ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
  "$folder/bin/pip" install -q -c "$constraints" torch numpy ml_dtypes safetensors "$@"
  PIP_CONSTRAINT=$constraints "$folder/bin/pip" install -q --no-deps --force-reinstall .
}
