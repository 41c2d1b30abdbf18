# Ten jobs of published sizes (card_table.py), each beside PyTorch where it has a peer there. Short runs, and rows with a
# peer, come first.

for i in "${!table_rows[@]}"; do
  name=${table_rows[i]}
  stage "trireme_$name" 60 row "$name"
  judge_kernels "trireme_$name"
  if [ -n "${table_peers[i]}" ]; then
    stage "pytorch_$name" 100 card_table theirs "$name"
    beside "$name" bf16
  fi
done
