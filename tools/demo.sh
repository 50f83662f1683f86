#!/usr/bin/env bash
# Installs what is missing, builds mmaemu and shows the main job on recorded data.
source "$(dirname "$0")/setup.sh"
need_packages g++ cmake ninja-build python3-venv libhwy-dev nlohmann-json3-dev
environment .venv "$(find_python 3.11 3.12 3.13)" 2.7.1
.venv/bin/python examples/evo2_projection.py "$@"
