#!/usr/bin/env bash
# Packs a build, its tests and every shared library that they need into one archive, for x86-64 Linux machines where
# nothing can be installed: Open MPI's runtime and plug-ins travel along, NVIDIA's libraries and the C library do not.
#
#   third_party/bundle.sh [--slim] BUILD_FOLDER ARCHIVE.tar.xz     or .tar.gz: larger, for machines without xz
#
# --slim packs the programs of the GPU gate and no others, of a build for one GPU architecture
# (-DCMAKE_CUDA_ARCHITECTURES=90); an archive of 45 MiB or more is refused.
#
# On the other machine:
#   tar xf ARCHIVE.tar.xz && trireme-bundle/run trireme doctor
#   trireme-bundle/run mpirun -np 2 trireme train job.toml
#   trireme-bundle/run-tests 'unit|mpi|gpu'           the last line is "N passed, N failed, N skipped"
#   trireme-bundle/tests/bench/gpu_gate.sh --part probe
#   trireme-bundle/examples/reproduce.sh --gpu        documented gains on a GPU; needs a python3 of 3.11 or later
#
# Environment: TRIREME_BUNDLE_PROGRAMS  a regular expression of program names to pack (default: the GPU gate's, and
#                                       without --slim tests of kernels and MPI; `.*` packs all tests)
# Exit codes: 0 packed, 1 something is missing, or the archive too large, 2 bad arguments.
set -euo pipefail

slim=
if [ "${1:-}" = --slim ]; then slim=1 && shift; fi
if [ $# != 2 ] || [ ! -d "$1/bin" ]; then
  sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2
  exit 2
fi
build=$(cd "$1" && pwd)
archive=$2
source=$(cd "$(dirname "$0")/.." && pwd)
programs='trireme|(gpt|resnet)_train_bench|cuda_(conformance|sixteen_bit|gpt|resnet)_test|comm_nccl_test|nccl_gpt'
programs+='|nccl_pipeline|libkernel_trace.so'
[ -n "$slim" ] || programs+='|kernel_conformance_test|comm_mpi_test'
programs=${TRIREME_BUNDLE_PROGRAMS:-$programs}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/trireme-bundle
mkdir -p "$bundle"/{bin,lib/hwloc,share,tests}

die() { echo "bundle.sh: $*" >&2; exit 1; }

if [ -n "$slim" ]; then
  architectures=$(sed -n 's/^CMAKE_CUDA_ARCHITECTURES:[A-Z]*=//p' "$build/CMakeCache.txt")
  [[ $architectures =~ ^[0-9]+a?(-real)?$ ]] ||
    die "--slim is for one GPU architecture, and $build has '$architectures': set -DCMAKE_CUDA_ARCHITECTURES=90"
fi

# Programs: ours, and what starts ranks.
for program in "$build"/bin/*; do
  [[ -x $program && -f $program && $(basename "$program") =~ ^($programs)$ ]] && cp "$program" "$bundle/bin/"
done
[ -n "$(ls "$bundle/bin")" ] || die "no program in $build/bin matches '$programs'; build first"
strip --strip-unneeded "$bundle"/bin/*
mpirun=$(command -v mpirun) || die "there is no mpirun"
for program in "$(readlink -f "$mpirun")" "$(readlink -f "$(command -v orted)")"; do
  cp "$program" "$bundle/bin/"
done
ln -sf "$(basename "$(readlink -f "$mpirun")")" "$bundle/bin/mpirun"
ln -sf mpirun "$bundle/bin/mpiexec"

# Open MPI finds plug-ins and messages through folders that it was built with; `run` names new ones. Fabrics,
# schedulers, monitoring and file formats stay behind.
plugin_folder() { ompi_info --path pkglibdir | sed -n "s/^ *Pkglibdir: *//p"; }
plugins=$(plugin_folder)/openmpi3
[ -d "$plugins" ] || plugins=$(plugin_folder)
[ -d "$plugins" ] || plugins=$(dirname "$(find /usr/lib /usr/local/lib -name 'mca_pml_ob1.so' 2>/dev/null | head -n 1)")
[ -e "$plugins/mca_pml_ob1.so" ] || die "cannot find Open MPI's plug-ins"
mkdir -p "$bundle/lib/openmpi" "$bundle/lib/pmix"
for plugin in "$plugins"/mca_*.so; do
  case $(basename "$plugin") in
    *ucx* | *ofi* | *psm* | *openib* | *monitoring* | *slurm* | *gridengine* | *tm.so | *flux* | *memheap* | *spml* | \
      *scoll* | *sshmem* | *romio* | *fcoll* | *fbtl* | *fs_* | *io_ompio* | *sharedfp* | *vprotocol* | *crs*) continue ;;
  esac
  cp "$plugin" "$bundle/lib/openmpi/"
done
# PMIx has plug-ins and messages of its own, in folders that differ between distributions.
find /usr/lib -path '*pmix*' -name '*mca_*.so' ! -path "$plugins/*" -exec cp {} "$bundle/lib/pmix/" \;
for folder in openmpi pmix; do
  for share in /usr/share/$folder /usr/lib/*/$folder*/share/$folder; do
    if [ -d "$share" ]; then cp -rL "$share" "$bundle/share/"; fi
  done
done

# Every library that any of them loads, but NVIDIA's and the C library's.
needed() {
  find "$bundle/bin" "$bundle/lib" -type f -print0 | xargs -0 ldd 2>/dev/null | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u
}
while read -r library; do
  case $(basename "$library") in
    libcuda* | libcu*.so* | libnv* | libnccl* | libcupti*) continue ;;
    libc.so* | libm.so* | libdl.so* | librt.so* | libpthread.so* | libresolv.so* | libutil.so* | ld-linux*) continue ;;
  esac
  cp -L "$library" "$bundle/lib/"
done < <(needed)
strip --strip-unneeded "$bundle"/lib/*.so* "$bundle"/lib/*/*.so 2>/dev/null || true

# Scripts and jobs of the GPU gate, and its peers.
mkdir -p "$bundle/tests/bench/peers" "$bundle/tests/comm"
cp "$source"/tests/parallel/comm/one_card.sh "$bundle/tests/comm/"
cp -r "$source"/tests/bench/{gpu_gate.sh,gate,card_table.py,gpt2_124m.toml,resnet50.toml,llama_grouped.toml} \
  "$bundle/tests/bench/"
cp "$source"/tests/bench/peers/{gpt_pytorch_cuda,resnet_pytorch,transformers_pytorch}.py "$bundle/tests/bench/peers/"

# The documented gains: examples/reproduce.sh --gpu.
mkdir -p "$bundle/examples"
cp -r "$source"/examples/{reproduce,reproduce.sh} "$bundle/examples/"
cp -r "$source"/tests/bench/reproduce "$bundle/tests/bench/"
rm -rf "$bundle"/tests/bench/reproduce/__pycache__ "$bundle"/tests/bench/gate/__pycache__

# The tests that need nothing but packed programs, one a line: name, labels, seconds, command.
ctest --test-dir "$build" --show-only=json-v1 | python3 -c '
import json, os, sys
build, bundle = sys.argv[1:3]
packed = set(os.listdir(bundle + "/bin"))
for test in json.load(sys.stdin)["tests"]:
    words = test.get("command", [])
    out, programs = [], []
    for word in words:
        if os.path.basename(word) in ("mpiexec", "mpirun") and os.path.isabs(word):
            word = "mpirun"
        elif word.startswith(build + "/bin/"):
            word = word[len(build) + 5:]
            programs.append(word)
        elif word.endswith("/one_card.sh"):
            word = "@BUNDLE@/tests/comm/one_card.sh"
        out.append(word)
    properties = {p["name"]: p["value"] for p in test.get("properties", [])}
    outside = any(os.path.isabs(w) for w in out)
    if outside or not programs or not packed.issuperset(programs):
        continue
    print("\t".join([test["name"], ";".join(properties.get("LABELS", [])), str(int(properties.get("TIMEOUT", 300))),
                     " ".join(out)]))
' "$build" "$bundle" >"$bundle/tests/list.tsv"

# Records the versions it was made from, and the newest symbols of the C library that a packed file needs.
mkdir -p "$bundle/share"
git -c safe.directory="$source" -C "$source" describe --always --abbrev=40 --exclude='*' --dirty=-changed \
  >"$bundle/share/commit" 2>/dev/null || echo unknown >"$bundle/share/commit"
find "$bundle" -type f \( -path '*/bin/*' -o -name '*.so*' \) -exec objdump -T {} + 2>/dev/null |
  grep -o 'GLIBC_[0-9][0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -n 1 >"$bundle/share/glibc"

# A program for scripts that start it by one name.
printf '%s\n' '#!/usr/bin/env bash' "# Runs trireme of commit $(cat "$bundle/share/commit") with the bundle's libraries." \
  'exec "$(dirname "${BASH_SOURCE[0]}")/run" trireme "$@"' >"$bundle/trireme"

cat >"$bundle/run" <<'RUN'
#!/usr/bin/env bash
# Runs a program of this bundle, or any other command, with the bundle's libraries: run trireme doctor
# TRIREME_NVIDIA_LIBS names folders with NVIDIA's libraries where they are in no usual place.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ $# = 0 ]; then echo "usage: run COMMAND [ARGUMENTS]; commands: $(ls "$here/bin" | tr '\n' ' ')" >&2; exit 2; fi

# NVIDIA's libraries: named, of Python wheels, of a toolkit.
nvidia=${TRIREME_NVIDIA_LIBS:-}
if [ -z "$nvidia" ]; then
  for python in python3 /usr/bin/python3; do
    wheels=$("$python" -c 'import glob, nvidia; print(":".join(d for p in nvidia.__path__ for d in sorted(glob.glob(p + "/*/lib"))))' 2>/dev/null) || wheels=
    [ -n "$wheels" ] && nvidia=$wheels && break
  done
  for folder in /usr/local/cuda/lib64 /usr/local/cuda/extras/CUPTI/lib64 /usr/local/nvidia/lib64; do
    [ -d "$folder" ] && nvidia=${nvidia:+$nvidia:}$folder
  done
fi
export LD_LIBRARY_PATH=$here/lib${nvidia:+:$nvidia}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PATH=$here/bin:$PATH

# Open MPI and PMIx, moved.
export OPAL_PREFIX=$here OPAL_BINDIR=$here/bin OPAL_LIBDIR=$here/lib OPAL_DATADIR=$here/share
export OPAL_PKGLIBDIR=$here/lib/openmpi OPAL_PKGDATADIR=$here/share/openmpi OPAL_SYSCONFDIR=$here/share
export OMPI_MCA_mca_base_component_path=$here/lib/openmpi
export PMIX_PREFIX=$here PMIX_INSTALL_PREFIX=$here PMIX_LIBDIR=$here/lib PMIX_DATADIR=$here/share PMIX_PKGLIBDIR=$here/lib/pmix
export PMIX_MCA_mca_base_component_path=$here/lib/pmix PMIX_MCA_pmix_mca_base_component_path=$here/lib/pmix
export HWLOC_PLUGINS_PATH=$here/lib/hwloc  # none
# One machine, perhaps root, perhaps fewer cores than ranks.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
command -v ssh >/dev/null || export OMPI_MCA_plm=isolated
# Missing libraries are named at once, and not by every rank.
need=$(cat "$here/share/glibc") have=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed 's/.* //')
if [ -n "$have" ] && [ "$(printf '%s\n' "$need" "$have" | sort -V | tail -n 1)" != "$have" ]; then
  echo "run: this bundle was packed on a machine with a newer C library: it needs glibc $need, this machine has $have; pack" \
    "it on a machine like this one or older" >&2
  exit 2
fi
for word in "$@"; do
  [[ $word != */* && -x $here/bin/$word ]] && command -v ldd >/dev/null || continue
  missing=$(ldd "$here/bin/$word" 2>/dev/null | sed -n 's/^[[:space:]]*\(.*\) => not found$/\1/p' | tr '\n' ' ')
  [ -z "$missing" ] && continue
  echo "run: $word needs ${missing% }, which this machine has in no usual place; NVIDIA's libraries are not packed: set" \
    "TRIREME_NVIDIA_LIBS to their folders, separated by colons" >&2
  exit 2
done
exec "$@"
RUN

cat >"$bundle/run-tests" <<'TESTS'
#!/usr/bin/env bash
# Runs the packed tests whose label matches a regular expression (default: unit|mpi), and optionally whose name
# matches a second one. Exit code 0 when none failed.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
labels=${1:-unit|mpi} names=${2:-.*}
logs=${TRIREME_TEST_LOGS:-$(mktemp -d)}
mkdir -p "$logs"
passed=0 failed=0 skipped=0
# Ending this script ends its test too: none goes on beside what comes next. Once, as mpirun leaves its ranks behind
# when it is told twice.
child=
trap '[ -z "$child" ] || kill "$child"; wait; exit 143' TERM
while IFS=$'\t' read -r name label seconds command <&3; do
  [[ ";$label;" =~ \;($labels)\; && $name =~ $names ]] || continue
  started=$SECONDS
  # shellcheck disable=SC2086  # a command of words
  timeout -k 10 "$seconds" "$here/run" ${command//@BUNDLE@/$here} >"$logs/$name.log" 2>&1 </dev/null &
  child=$!
  wait $child
  status=$?
  # Some cases may be skipped; a test of which nothing ran has not passed.
  if [ $status = 0 ] && grep -q '\[  PASSED  \] 0 tests' "$logs/$name.log"; then
    skipped=$((skipped + 1)) && echo "skip   $name: $(grep -A 1 'Skipped$' "$logs/$name.log" | sed -n 2p)"
  elif [ $status = 0 ]; then
    passed=$((passed + 1)) && echo "ok     $name ($((SECONDS - started)) s)"
  else
    failed=$((failed + 1)) && echo "FAILED $name (status $status, $((SECONDS - started)) s); the end of $logs/$name.log:"
    tail -n 15 "$logs/$name.log"
  fi
done 3<"$here/tests/list.tsv"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ] && [ $((passed + failed)) != 0 ]
TESTS
chmod +x "$bundle/run" "$bundle/run-tests" "$bundle/trireme"

# The programs hold the same libraries: a dictionary as large as all of them together finds every repetition, so one
# thread and programs side by side, sorted by name.
compress=(xz -T1 --lzma2=preset=1,dict=128MiB)
[[ $archive != *.gz ]] || compress=(gzip -6)
tar -C "$work" -c --sort=name --owner=0 --group=0 trireme-bundle | "${compress[@]}" >"$archive"
bytes=$(stat -c %s "$archive")
[ -z "$slim" ] || [ "$bytes" -lt $((45 << 20)) ] || die "$archive has $bytes bytes; a slim one has less than 45 MiB"
echo "bundle.sh: $archive, $((bytes / 1048576)) MiB, $(wc -l <"$bundle/tests/list.tsv") tests"
