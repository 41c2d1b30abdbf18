#!/usr/bin/env bash
# Installs the Debian packages that Trireme is built, tested and checked with. Safe to run again: when nothing is
# missing it returns at once, without root and without network.
#
#   third_party/install.sh                 what building and testing need
#   third_party/install.sh --build-only    what building and running need
#   third_party/install.sh --all           also what .ci/run and contributors need; where PyPI cannot be reached, without
#                                          build/python (see --python), whose test is skipped
#   third_party/install.sh --python        what building and the Python wheel need, its tests too: the packages of PyPI in
#                                          third_party/python_packages.txt go into the virtual environment build/python
#   third_party/install.sh --report        what building and examples/reproduce.sh need
#   third_party/install.sh --fuzz          what building and libFuzzer need (tests/fuzz/README.md)
#   third_party/install.sh --slurm         what building and the test under a real Slurm need (examples/slurm/README.md)
#
# Exit codes: 0 everything is there, 1 the package manager failed, 2 cannot install (no root, no apt) or bad option.
set -euo pipefail

# third_party/README.md says why each package is needed.
build_packages=(
  g++ cmake ninja-build ccache
  libopenmpi-dev openmpi-bin openssh-client
  libdnnl-dev
  libfmt-dev libspdlog-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev
  libmicrohttpd-dev
  libsentencepiece-dev libpcre2-dev
  libjpeg62-turbo-dev libpng-dev
  python3-jinja2
)
# Without a real BLAS, Debian's PyTorch multiplies matrices fifty times slower: no fair baseline.
report_packages=(python3 python3-matplotlib)
test_packages=(libgtest-dev libgmock-dev libbenchmark-dev python3-torch python3-torchvision libopenblas0-openmp "${report_packages[@]}")
check_packages=(git clang-format-14 clang-tidy-14)
slurm_packages=(slurmctld slurmd slurm-client munge python3)
python_packages=(python3 python3-dev python3-venv)
fuzz_packages=(clang-16 libclang-rt-16-dev libomp-16-dev)

option=${1:-}
case "$option" in
  "") wanted=("${build_packages[@]}" "${test_packages[@]}") ;;
  --build-only) wanted=("${build_packages[@]}") ;;
  --all) wanted=("${build_packages[@]}" "${test_packages[@]}" "${check_packages[@]}" "${python_packages[@]}") ;;
  --python) wanted=("${build_packages[@]}" "${python_packages[@]}") ;;
  --report) wanted=("${build_packages[@]}" "${report_packages[@]}") ;;
  --fuzz) wanted=("${build_packages[@]}" "${fuzz_packages[@]}") ;;
  --slurm) wanted=("${build_packages[@]}" "${slurm_packages[@]}") ;;
  *) sed -n 's/^# \{0,1\}//; 2,15p' "$0" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "install.sh: this system has no apt. Install what these Debian 12 packages hold, then build with CMake:" >&2
  printf '  %s\n' "${wanted[@]}" >&2
  exit 2
fi

# Prints the arguments that are not installed packages, one a line.
missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^.i' || echo "$package"
  done
}

# The virtual environment of the Python wheel, if it is wanted. Its copy of the list shows what it holds.
make_python_environment() {
  [[ "$option" =~ ^--(python|all)$ ]] || return 0
  local list=third_party/python_packages.txt
  cd "$(dirname "$0")/.."
  cmp -s "$list" build/python/packages.txt && return
  echo "install.sh: installing $list into build/python"
  if /usr/bin/python3 -m venv build/python && timeout 300 build/python/bin/pip install --quiet --retries 1 --timeout 20 \
    --disable-pip-version-check --requirement "$list"; then
    cp "$list" build/python/packages.txt
  elif [ "$option" = --all ]; then
    echo "install.sh: PyPI's packages in $list are missing: the test of the Python wheel is skipped" >&2
  else
    return 1
  fi
}

mapfile -t missing < <(missing_packages "${wanted[@]}")
if [ "${#missing[@]}" = 0 ]; then
  make_python_environment
  echo "install.sh: all ${#wanted[@]} packages are installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" != 0 ]; then
  if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    as_root=(sudo)
  else
    echo "install.sh: ${#missing[@]} packages are missing and installing them needs root. As root, run:" >&2
    echo "  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 2
  fi
fi

echo "install.sh: installing ${missing[*]}"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
  tail -n 25 "$log" >&2
  echo "install.sh: apt-get failed (its last lines are above). Missing: ${missing[*]}" >&2
  exit 1
fi

mapfile -t missing < <(missing_packages "${wanted[@]}")
if [ "${#missing[@]}" != 0 ]; then
  echo "install.sh: apt-get reported success, yet these are not installed: ${missing[*]}" >&2
  exit 1
fi
make_python_environment
echo "install.sh: done, all ${#wanted[@]} packages are installed"
