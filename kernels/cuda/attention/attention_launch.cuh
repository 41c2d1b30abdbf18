// Chooses the tile of an attention kernel by head size and shared memory.
#pragma once

#include "kernels/cuda/attention/attention_tile.cuh"
#include "kernels/cuda/attention/tf32_mma.cuh"
#include "kernels/cuda/dynamic_shared.cuh"

namespace trireme::cuda {

/// A kernel variant as a type: run(Tile<64, 64, false>{}).
template <int kRows, int kDim, bool kDrops>
struct Tile {
  static constexpr int B = kRows;
  static constexpr int D = kDim;
  static constexpr bool kDropout = kDrops;
};

/// Calls run(tile) with the smallest D that holds a head. B is 64 if 64 rows fit into registers and into
/// shared memory, as counted by bytes_of(tile), else 32. Dropout needs registers too. Throws
/// Error(kUnsupported) when nothing fits.
template <class BytesOf, class Run>
void for_tile(const KernelContext& exec, const char* op, std::int64_t head_dim, bool dropout,
              BytesOf bytes_of, Run run) {
  const std::size_t available = max_shared_bytes(exec);
  const auto choose = [&]<int D>(std::integral_constant<int, D>) {
    if (dropout) return run(Tile<32, D, true>{});
    if constexpr (D <= 64) return run(Tile<64, D, false>{});
    if constexpr (D == 128) {
      if (bytes_of(Tile<64, D, false>{}) <= available) return run(Tile<64, D, false>{});
    }
    if constexpr (D >= 128) {
      if (bytes_of(Tile<32, D, false>{}) <= available) return run(Tile<32, D, false>{});
    }
    throw Error(ErrorCode::kUnsupported,
                "{} on cuda: heads of {} need more shared memory than this card has ({} bytes a block)", op,
                head_dim, available);
  };
  if (head_dim <= 32) return choose(std::integral_constant<int, 32>{});
  if (head_dim <= 64) return choose(std::integral_constant<int, 64>{});
  if (head_dim <= 128) return choose(std::integral_constant<int, 128>{});
  if (head_dim <= 256) return choose(std::integral_constant<int, 256>{});
  throw Error(ErrorCode::kUnsupported, "{} on cuda: heads of {} are larger than 256; use more heads", op,
              head_dim);
}

struct TileGrid {
  std::int64_t tiles, heads, samples;
};

/// Launches one block of `threads` per tile of B rows, head and sample.
template <class... Params, class... Args>
void launch_tiles(const KernelContext& exec, const char* op, const TileGrid& of, int threads,
                  std::size_t shared_bytes, void (*kernel)(Params...), Args&&... args) {
  TRIREME_CHECK(of.samples <= 65535,
                "{} on cuda: {} samples are too many for one launch; use a smaller micro-batch", op,
                of.samples);
  allow_shared_bytes(op, kernel, shared_bytes);
  dim3 grid = grid_of(of.tiles);
  grid.y = static_cast<unsigned>(of.heads);
  grid.z = static_cast<unsigned>(of.samples);
  launch(exec, op, grid, threads, shared_bytes, kernel, std::forward<Args>(args)...);
}

/// Calls run(T{}, precision) with the element type and its precision on tensor cores. tf32 represents 16-bit
/// types exactly.
template <class Run>
void for_mma_type(const char* op, DType dtype, MathMode math, Run run) {
  using Tf32 = std::integral_constant<MmaPrecision, MmaPrecision::kTf32>;
  if (dtype == DType::kFloat32 && math != MathMode::kTf32) {
    return run(float{}, std::integral_constant<MmaPrecision, MmaPrecision::kThreeTf32>{});
  }
  for_float_type(op, dtype, [&]<class T>(T) { run(T{}, Tf32{}); });
}

/// The extents of packed attention and of cross-attention.
struct AttentionExtents {
  PackedHeads heads;
  DType dtype;
  std::int64_t samples, num_queries, num_keys;
  std::int64_t q_pitch, kv_pitch;

  bool is_empty() const { return samples * num_queries * heads.width() == 0; }
};
template <class Args>
AttentionExtents extents_of(const Args& args) {
  if constexpr (requires { args.qkv; }) {
    const PackedHeads heads = packed_heads(args);
    const std::int64_t tokens = args.qkv.shape[1];
    return {heads, args.qkv.dtype, args.qkv.shape[0], tokens, tokens, heads.packed(), heads.packed()};
  } else {
    const std::int64_t width = args.q.shape[2];
    return {{args.num_heads, args.num_heads, width / args.num_heads},
            args.q.dtype,
            args.q.shape[0],
            args.q.shape[1],
            args.k.shape[1],
            width,
            width};
  }
}

template <class T, class Args>
QkvPointers<const T> inputs_of(const Args& args) {
  if constexpr (requires { args.qkv; }) {
    const PackedHeads heads = packed_heads(args);
    const T* q = args.qkv.template as<T>();
    const T* k = q + heads.width();
    return {q, k, k + heads.keys * heads.dim};
  } else {
    return {args.q.template as<T>(), args.k.template as<T>(), args.v.template as<T>()};
  }
}
template <class T, class Args>
QkvPointers<T> gradients_of(const Args& args) {
  if constexpr (requires { args.dqkv; }) {
    const PackedHeads heads = packed_heads(args);
    T* q = args.dqkv.template as<T>();
    T* k = q + heads.width();
    return {q, k, k + heads.keys * heads.dim};
  } else {
    return {args.dq.template as<T>(), args.dk.template as<T>(), args.dv.template as<T>()};
  }
}

template <class Args>
bool has_dropout(const Args& args) {
  if constexpr (requires { args.dropout_p; }) return args.dropout_p > 0.0f;
  return false;
}

template <class Args>
AttentionProblem problem_of(const Args& args, bool packed) {
  const AttentionExtents e = extents_of(args);
  AttentionProblem problem{.num_queries = e.num_queries,
                           .num_keys = e.num_keys,
                           .q_pitch = e.q_pitch,
                           .kv_pitch = e.kv_pitch,
                           .num_heads = args.num_heads,
                           .num_kv_heads = static_cast<int>(e.heads.keys),
                           .head_dim = static_cast<int>(e.heads.dim),
                           .scale = args.scale,
                           .causal = false,
                           .dropout_p = 0.0f,
                           .rng = {},
                           .first_sample = 0,
                           .packed = packed,
                           .key_bounds = nullptr,
                           .window = 0};
  if constexpr (requires { args.qkv; }) {
    problem.causal = args.causal;
    problem.dropout_p = args.dropout_p;
    problem.rng = args.rng;
    problem.first_sample = args.first_sample;
    problem.key_bounds = args.key_bounds.template as<std::int32_t>();
    problem.window = args.window;
  }
  return problem;
}

}  // namespace trireme::cuda
