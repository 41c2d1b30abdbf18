#!/usr/bin/env bash
# Lets several ranks share one GPU, for tests only: mpirun -np 4 one_card.sh PROGRAM ...
# NCCL rejects two ranks on one card of one host, so every rank claims its own host and communicates over
# sockets.
export NCCL_HOSTID="one-card-${OMPI_COMM_WORLD_RANK:-0}"
export NCCL_SOCKET_IFNAME=lo
export NCCL_IB_DISABLE=1
# The algorithm that links only neighbours, and the protocol that does not spin on flags in memory, which is
# the worst case for ranks that take turns on one card.
export NCCL_ALGO=Ring NCCL_PROTO=Simple
# Settings for pipelines: see "channels over NCCL" in parallel/comm/nccl.h. Programs without pipelines may set
# LAZY.
export CUDA_DEVICE_MAX_CONNECTIONS=32
export CUDA_MODULE_LOADING=${CUDA_MODULE_LOADING:-EAGER}
exec "$@"
