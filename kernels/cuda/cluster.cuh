// Clusters of blocks, from sm_90 on: blocks that run at the same time and read each other's shared memory.
#pragma once

#include <cuda_runtime.h>

#if defined(__CUDACC__)
#include <cooperative_groups.h>
#endif

namespace trireme::cuda {

/// Blocks of the largest cluster that every card with clusters runs.
inline constexpr int kMostClusterBlocks = 8;

/// A barrier of all threads of the cluster.
__device__ inline void cluster_barrier() {
#if !defined(__CUDACC__)
  ::emulation::cluster_barrier();
#elif __CUDA_ARCH__ >= 900
  cooperative_groups::this_cluster().sync();
#endif
}

/// The address, in shared memory of block `rank` of the cluster, that corresponds to `own`. Shared memory
/// must be dynamic. A block must not end before the others have read it.
template <class T>
__device__ inline const T* cluster_shared(T* own, unsigned rank) {
#if !defined(__CUDACC__)
  return static_cast<const T*>(::emulation::cluster_shared(own, rank));
#elif __CUDA_ARCH__ >= 900
  return cooperative_groups::this_cluster().map_shared_rank(own, rank);
#else
  return own + rank;  // never runs
#endif
}

}  // namespace trireme::cuda
