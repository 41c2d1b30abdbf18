#!/usr/bin/env bash
# From a bare Debian 12 to a trained GPT. Installs missing packages, builds, tokenizes the C++ headers of this machine's
# compiler as bytes, and trains a small GPT on two MPI ranks (about three minutes on two cores). Then evaluates the
# model, saves it, and prints a sample. Another run rebuilds only what changed, and resumes training or only samples.
#
#   examples/quickstart.sh [trireme train options]      such as: --set train.steps=100
set -euo pipefail
cd "$(dirname "$0")/.."
data=out/quickstart/data
run=out/quickstart/run
trireme=build/release/bin/trireme

third_party/install.sh --build-only </dev/null

echo "quickstart: building"
[ -e build/release/build.ninja ] ||
  cmake --preset release -DTRIREME_BUILD_TESTS=OFF -DTRIREME_BUILD_EXAMPLES=OFF </dev/null >/dev/null
cmake --build build/release --target trireme </dev/null

# The folder in which the compiler finds <vector>: some ten megabytes of C++.
headers=$(echo '#include <vector>' | g++ -x c++ -M - | tr ' ' '\n' | grep -m 1 '/vector$')
echo "quickstart: tokens from $(dirname "$headers")"
[ -e "$data/dataset.json" ] || "$trireme" data text "$(dirname "$headers")" --out "$data"

echo "quickstart: training on 2 ranks"
mpirun=(mpirun -np 2 --bind-to none)
# Open MPI refuses to run as root, or with more ranks than cores, without these options.
[ "$(id -u)" != 0 ] || mpirun+=(--allow-run-as-root)
[ "$(nproc)" -ge 2 ] || mpirun+=(--oversubscribe)
"${mpirun[@]}" "$trireme" train examples/quickstart.toml --out "$run" "$@" </dev/null

echo "quickstart: what the trained model writes after 'template <typename'"
"$trireme" sample "$run" --prompt "template <typename" --tokens 400 --seed 1
