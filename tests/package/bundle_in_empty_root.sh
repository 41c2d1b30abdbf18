#!/usr/bin/env bash
# Unpacks a bundle (third_party/bundle.sh) in a root folder with a C library, a shell and its tools, and nothing else,
# and runs the gate's probe there: once as it is, and once with NVIDIA's libraries, with which every program has to find
# all that it loads. There is no device. Then, with this machine's Python, the documented gains are rehearsed there.
#
#   tests/package/bundle_in_empty_root.sh ARCHIVE.tar.xz BUILD_FOLDER      the folder that was packed
#
# Exit codes: 0 the probe says "no device" both times, and the gains are there, 1 something else, 77 no right to a root
# folder of one's own.
set -uo pipefail

if [ "${1:-}" != --inside ]; then
  [ $# = 2 ] && [ -f "$1" ] && [ -d "$2" ] || { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
  own_root=(unshare --mount --fork)
  [ "$(id -u)" = 0 ] || own_root+=(--map-root-user)
  # A mount of its own is what containers may forbid.
  "${own_root[@]}" mount -t tmpfs none /mnt 2>/dev/null || { echo "no right to mount here"; exit 77; }
  root=$(mktemp -d)
  "${own_root[@]}" "$0" --inside "$root" "$(readlink -f "$1")" "$(readlink -f "$2")"
  status=$?
  rm -rf --one-file-system "$root"
  exit $status
fi

root=$2 archive=$3 build=$4
die() { echo "bundle_in_empty_root.sh: $*" >&2; exit 1; }
# The mounts end with this process, and are nowhere else.
mount -t tmpfs none "$root" || exit 1
mkdir -p "$root"/{bin,dev,lib64,proc,tmp,usr/local/cuda/lib64}
ln -s ../bin "$root/usr/bin"
tools=(bash basename cat cp cut date dirname env getconf grep gzip head kill ldd ls mkdir mktemp mv nproc readlink rm
  sed sleep sort tail tar timeout tr uname wc)
for tool in "${tools[@]}"; do
  path=$(type -P "$tool") && cp -L "$path" "$root/bin/" || die "there is no $tool"
done
ln -s bash "$root/bin/sh"
# The libraries that these load, and the C library itself: no libstdc++, no MPI.
mapfile -t libraries < <(for tool in "${tools[@]}"; do ldd "$root/bin/$tool" 2>/dev/null; done |
  grep -o '/[^ ]*' | sort -u)
c_library=$(dirname "$(printf '%s\n' "${libraries[@]}" | grep '/libc\.so' | head -n 1)")
libraries+=("$c_library"/lib{m,dl,rt,pthread,resolv,util,nss_files}.so.*)
for library in "${libraries[@]}"; do
  [ ! -e "$library" ] || (mkdir -p "$root/$(dirname "$library")" && cp -L "$library" "$root/$library")
done
for device in null zero urandom; do touch "$root/dev/$device" && mount --bind "/dev/$device" "$root/dev/$device"; done
mount --rbind /proc "$root/proc" || exit 1
tar xf "$archive" -C "$root" || exit 1

# inside COMMAND...: what the machine's environment says does not count.
chroot=$(PATH=$PATH:/usr/sbin type -P chroot)
inside() { env -i PATH=/bin "$chroot" "$root" "$@"; }
probe() {
  echo "the probe, $1:"
  inside /trireme-bundle/tests/bench/gpu_gate.sh --part probe --out /gate
  [ $? = 77 ] || die "the probe did not end with 77"
  grep -q '"state": "no device"' "$root/gate/probe.json" || die "probe.json: $(cat "$root/gate/probe.json")"
  [[ $(tar tzf "$root/gate/probe.tar.gz") == *probe/doctor.err* ]] || die "the archive lacks the logs"
}
probe "with a C library only"
# Files are named one by one: the folder may hold others.
nvidia=(libcud libcublas libcupti libnccl libnvrtc libnvJitLink)
mapfile -t folders < <(ldd "$build"/bin/{trireme,libkernel_trace.so} 2>/dev/null |
  grep -oE '/[^ ]*/lib(cud|cublas|cupti|nccl)[^/ ]*' | xargs -r dirname | sort -u)
for library in $(for folder in "${folders[@]}"; do printf "$folder/%s*.so* " "${nvidia[@]}"; done); do
  place=$root/usr/local/cuda/lib64/${library##*/}
  [ ! -f "$library" ] || { touch "$place" && mount --bind "$library" "$place"; }
done
for program in "$root"/trireme-bundle/bin/*; do
  missing=$(inside /trireme-bundle/run ldd "/trireme-bundle/bin/${program##*/}" | grep 'not found')
  [ -z "$missing" ] || die "${program##*/} lacks $missing"
done
probe "with NVIDIA's libraries too"
grep -q '"doctor": {"state": "passed"' "$root/gate/probe.json" || die "no doctor: $(cat "$root/gate/probe.json")"

# A Python with its standard library, which the bundle does not bring.
python=$(readlink -f /usr/bin/python3)
library=$("$python" -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
mkdir -p "$root/$library" && mount --bind "$library" "$root/$library"
cp "$python" "$root/bin/python3"
for needed in $(ldd "$python" "$library"/lib-dynload/*.so 2>/dev/null | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u); do
  [ -e "$root/$needed" ] || (mkdir -p "$root/$(dirname "$needed")" && cp -L "$needed" "$root/$needed")
done
echo "the documented gains, rehearsed:"
inside env PYTHONHOME=/usr /trireme-bundle/examples/reproduce.sh --gpu --dry-run --out /gains || die "reproduce.sh failed"
for experiment in mixed_precision_gpu mixed_precision_resnet50 recompute_gpu fused_kernels; do
  grep -A 9 "\"name\": \"$experiment\"" "$root/gains/results.json" | grep -q '"reason": ""' || die "$experiment was not run"
done
