#!/usr/bin/env bash
# Lets several ranks share one GPU, for tests only: mpirun -np 4 one_card.sh PROGRAM ...
# NCCL refuses two ranks on one card of one host, so every rank claims a host of its own and talks over sockets.
export NCCL_HOSTID="one-card-${OMPI_COMM_WORLD_RANK:-0}"
export NCCL_SOCKET_IFNAME=lo
export NCCL_IB_DISABLE=1
# The algorithm that needs no links but to neighbours, and the protocol that does not spin on flags in memory, for which
# ranks in turns on one card are the worst case.
export NCCL_ALGO=Ring NCCL_PROTO=Simple
# Settings for pipelines: see "channels over NCCL" in parallel/comm/nccl.h. Programs without one may ask for LAZY.
export CUDA_DEVICE_MAX_CONNECTIONS=32
export CUDA_MODULE_LOADING=${CUDA_MODULE_LOADING:-EAGER}
exec "$@"
