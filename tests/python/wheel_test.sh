#!/usr/bin/env bash
# wheel_test.sh SOURCE WORK WERROR BLOCKS: builds the wheel of SOURCE in WORK, installs it into build/python, and runs
# pytest. BLOCKS: the library of examples/python/own_blocks.cc.
# Exit codes: 0 passed, 1 failed, 77 skipped: third_party/install.sh --python was not run.
set -euo pipefail
source=$1 work=$2 werror=$3
export TRIREME_OWN_BLOCKS=$4
python=$source/build/python/bin/python
if ! cmp -s "$source/third_party/python_packages.txt" "$source/build/python/packages.txt"; then
  # GoogleTest's report format, so that the summary counts and lists it.
  printf '%s: Skipped\n%s\n[  SKIPPED ] python_wheel (0 ms)\n[  SKIPPED ] 1 test, listed below:\n' "$0" \
    "there is no virtual environment build/python with PyPI's packages; third_party/install.sh --python makes it"
  exit 77
fi
mkdir -p "$work"
rm -f "$work"/*.whl
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INDEX=1 PYTHONDONTWRITEBYTECODE=1
# The compiler by the name that CMake finds, so that ccache knows the objects of other builds.
export CXX=c++ CCACHE_BASEDIR=$source CCACHE_NOHASHDIR=1 CMAKE_BUILD_PARALLEL_LEVEL=${TRIREME_JOBS:-2}
"$python" -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir "$work" \
  --config-settings=cmake.define.TRIREME_WERROR="$werror" "$source"
wheels=("$work"/trireme-*-cp311-abi3-*.whl)
bytes=$(stat -c %s "${wheels[0]}")
echo "${wheels[0]##*/}: $bytes bytes"
[ "$bytes" -le 20000000 ] || { echo "the wheel is larger than 20 MB"; exit 1; }
"$python" -m pip install --quiet --no-deps --force-reinstall "${wheels[0]}"
"$source/build/python/bin/trireme" --version
cd "$work"  # not in the checkout, whose folders Python could import
PATH=$source/build/python/bin:$PATH exec "$python" -m pytest -q -p no:cacheprovider --rootdir "$source" "$source/tests/python"
