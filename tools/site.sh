#!/usr/bin/env bash
# Builds the documentation site into build/site; warnings and broken links are errors. --serve shows it instead.
source "$(dirname "$0")/setup.sh"
need_packages doxygen python3-venv
[ -x build/venv-docs/bin/mkdocs ] || "$(find_python 3.11 3.12 3.13)" -m venv build/venv-docs
build/venv-docs/bin/pip install -q -r constraints/docs.txt
if [ "${1:-}" = --serve ]; then
  exec build/venv-docs/bin/mkdocs serve
fi
NO_MKDOCS_2_WARNING=1 build/venv-docs/bin/mkdocs build --quiet --strict
echo "build/site: $(find build/site -name '*.html' | wc -l) pages"
