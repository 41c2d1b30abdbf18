# Step times as `trireme plan` foresees them from what `doctor --measure` finds on this machine, beside measured ones: of
# the part `table` where it ran into the same folder, else measured here. Then the kernels of a step of each row below its
# aim. TRIREME_GATE_CLUSTER names a cluster file that was measured before.

cluster=$logs/here.toml
# trace_row NAME
trace_row() {
  CUDA_INJECTION64_PATH=$bundle/bin/libkernel_trace.so TRIREME_KERNEL_TRACE=$work/$1.tsv \
    card_table short "$1" --out "$work" && "$python" "$folder/kernel_share.py" "$work/$1.tsv"
}

if [ -n "${TRIREME_GATE_CLUSTER:-}" ]; then
  cp "$TRIREME_GATE_CLUSTER" "$cluster"
else
  stage measure 240 "$bundle/run" trireme doctor --measure "$cluster"
fi
measured=()
[ ! -e "$out/table.tar.gz" ] || tar -C "$work" -xzf "$out/table.tar.gz"
for name in "${table_rows[@]}"; do
  if [ -s "$work/table/trireme_$name.out" ]; then
    cp "$work/table/trireme_$name.out" "$logs/"
  else
    stage "trireme_$name" 60 row "$name"
  fi
  [ ! -s "$logs/trireme_$name.out" ] || measured+=("$logs/trireme_$name.out")
done
stage foreseen 60 card_table foreseen --cluster "$cluster" "${measured[@]}"
card_table missed "${measured[@]}" >"$work/missed"
while read -r name <&3; do
  if [ "$device" = cpu ]; then
    skip "trace_$name" "dry run"
  elif [ ! -e "$bundle/bin/libkernel_trace.so" ]; then
    skip "trace_$name" "this bundle has no libkernel_trace.so"
  else
    stage "trace_$name" 60 trace_row "$name"
  fi
done 3<"$work/missed"
