// Token and position tables.
//
// [Note: ordered buckets] The backward adds each token's rows in token order, without floating-point atomics.
// The positions of each token id are collected in a bucket. Integer atomics assign buckets, and slots within
// them, in arbitrary order. Each position then computes its rank among the positions of its bucket, which
// restores token order. One block adds the rows of kEmbeddingSegment positions. A larger bucket has several
// such segments, whose sums are added in order by a second kernel: a table of few rows, such as BERT's token
// types, and frequent ids, such as its mask token, would otherwise keep one block busy for longer than the
// rest of the backward. The segments follow from the tokens alone.
#include <cassert>

#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/product_workspace.h"

namespace trireme::cuda {
namespace {

constexpr int kRowThreads = 128;  // per row

// The ids of a table, or of a piece of a table that begins at a later id.
struct Ids {
  std::int64_t first, count;

  // The table row of a token, or -1 if another piece holds it.
  __device__ std::int64_t row(std::int32_t token) const {
    const std::int64_t row = token - first;
    return row >= 0 && row < count ? row : -1;
  }
};

template <class T, int N>
__global__ void embedding_fwd_kernel(const std::int32_t* tokens, const T* table, const T* positions, T* x,
                                     std::int64_t seq_len, std::int64_t cols) {
  const std::int64_t place = blockIdx.x;
  const T* row = table + std::int64_t{tokens[place]} * cols;
  const T* position = positions == nullptr ? nullptr : positions + place % seq_len * cols;
  for (std::int64_t c = std::int64_t{threadIdx.x} * N; c < cols; c += std::int64_t{kRowThreads} * N) {
    float v[N];
    load<N>(row + c, v);
    if (position != nullptr) {
      float p[N];
      load<N>(position + c, p);
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] += p[i];
    }
    store<N>(x + place * cols + c, v);
  }
}

// Adds this piece's contribution to x. x contains no negative zeros. So an element that is 0 in all pieces
// but one sums to the same bits in any order.
template <class T, int N>
__global__ void embedding_piece_kernel(const std::int32_t* tokens, const T* table, const T* positions, T* x,
                                       std::int64_t seq_len, std::int64_t cols, Ids ids) {
  const std::int64_t place = blockIdx.x;
  const std::int64_t row = ids.row(tokens[place]);
  if (row < 0 && positions == nullptr) return;
  for (std::int64_t c = std::int64_t{threadIdx.x} * N; c < cols; c += std::int64_t{kRowThreads} * N) {
    float sum[N] = {}, v[N];
    const auto add = [&](const T* more) {
      load<N>(more, v);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += v[i];
    };
    if (row >= 0) add(table + row * cols + c);
    if (positions != nullptr) add(positions + place % seq_len * cols + c);
    add(x + place * cols + c);
    store<N>(x + place * cols + c, sum);
  }
}

// The positions of each token id. Arrays are indexed by token id or by position, except `cursor`.
struct Buckets {
  int* count;   // [V] positions of this id; initially zero
  int* filled;  // [V] slots already assigned; initially zero
  int* cursor;  // slots already assigned to buckets; initially zero
  int* first;   // [V] start of the bucket, for ids that occur
  int* slots;   // [positions] unordered within a bucket
  int* sorted;  // [positions] in order within a bucket

  // The row of `partials` for segment `segment` of a bucket with several. Such a bucket has at least as many
  // rows to itself as it has segments.
  __device__ std::int64_t partial(std::int64_t id, int segment) const {
    return std::int64_t{2} * first[id] / kEmbeddingSegment + segment;
  }
};

__global__ void count_kernel(const std::int32_t* tokens, int num_places, Ids ids, Buckets b) {
  const int place = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (place >= num_places) return;
  const std::int64_t id = ids.row(tokens[place]);
  if (id >= 0) atomicAdd(b.count + id, 1);
}

__global__ void begin_kernel(int num_ids, Buckets b) {
  const int id = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (id < num_ids && b.count[id] > 0) b.first[id] = atomicAdd(b.cursor, b.count[id]);
}

__global__ void fill_kernel(const std::int32_t* tokens, int num_places, Ids ids, Buckets b) {
  const int place = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (place >= num_places) return;
  const std::int64_t id = ids.row(tokens[place]);
  if (id < 0) return;
  b.slots[b.first[id] + atomicAdd(b.filled + id, 1)] = place;
}

__global__ void sort_kernel(const std::int32_t* tokens, int num_places, Ids ids, Buckets b) {
  const int place = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (place >= num_places) return;
  const std::int64_t id = ids.row(tokens[place]);
  if (id < 0) return;
  const int* bucket = b.slots + b.first[id];
  const int count = b.count[id];
  int rank = 0;
#pragma unroll 4
  for (int i = 0; i < count; ++i) rank += bucket[i] < place ? 1 : 0;
  b.sorted[b.first[id] + rank] = place;
}

// One block per position in bucket order. The block of the first position of a segment adds the segment: to
// the table, or if the bucket has more segments, to its row of `partials`.
template <class T, int N>
__global__ void embedding_bwd_kernel(const T* dx, const std::int32_t* tokens, Ids ids, Buckets b,
                                     float* dtable, float* partials, std::int64_t cols) {
  const int at = static_cast<int>(blockIdx.x);
  if (at >= *b.cursor) return;
  const std::int64_t id = ids.row(tokens[b.sorted[at]]);
  const int rank = at - b.first[id], count = b.count[id];
  if (rank % kEmbeddingSegment != 0) return;
  const int* segment = b.sorted + at;
  const int length = count - rank < kEmbeddingSegment ? count - rank : kEmbeddingSegment;
  const bool is_whole = count <= kEmbeddingSegment;
  float* out = is_whole ? dtable + id * cols : partials + b.partial(id, rank / kEmbeddingSegment) * cols;
  for (std::int64_t c = std::int64_t{threadIdx.x} * N; c < cols; c += std::int64_t{kRowThreads} * N) {
    float sum[N] = {};
    if (is_whole) load<N>(out + c, sum);
#pragma unroll 4
    for (int k = 0; k < length; ++k) {
      float v[N];
      load<N>(dx + std::int64_t{segment[k]} * cols + c, v);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += v[i];
    }
    store<N>(out + c, sum);
  }
}

// Adds the segments of a bucket, in order. One block per kEmbeddingSegment positions in bucket order, where
// at most one bucket of several segments begins, and per kThreads columns.
__global__ void join_segments_kernel(const std::int32_t* tokens, Ids ids, Buckets b, float* dtable,
                                     const float* partials, std::int64_t cols) {
  __shared__ int found;
  if (threadIdx.x == 0) found = -1;
  __syncthreads();
  const int at = static_cast<int>(blockIdx.x) * kEmbeddingSegment + static_cast<int>(threadIdx.x);
  if (threadIdx.x < kEmbeddingSegment && at < *b.cursor) {
    const std::int64_t id = ids.row(tokens[b.sorted[at]]);
    if (b.first[id] == at && b.count[id] > kEmbeddingSegment) found = at;
  }
  __syncthreads();
  const std::int64_t c = std::int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (found < 0 || c >= cols) return;
  const std::int64_t id = ids.row(tokens[b.sorted[found]]);
  const int segments = (b.count[id] + kEmbeddingSegment - 1) / kEmbeddingSegment;
  float sum = dtable[id * cols + c];
#pragma unroll 8
  for (int k = 0; k < segments; ++k) sum += partials[(b.partial(id, 0) + k) * cols + c];
  dtable[id * cols + c] = sum;
}

// One block per position. Samples are added in order.
template <class T, int N>
__global__ void positions_bwd_kernel(const T* dx, float* dpositions, std::int64_t samples,
                                     std::int64_t seq_len, std::int64_t cols, bool accumulate) {
  const std::int64_t t = blockIdx.x;
  for (std::int64_t c = std::int64_t{threadIdx.x} * N; c < cols; c += std::int64_t{kRowThreads} * N) {
    float sum[N] = {};
    float* out = dpositions + t * cols + c;
    if (accumulate) load<N>(out, sum);
#pragma unroll 4
    for (std::int64_t s = 0; s < samples; ++s) {
      float v[N];
      load<N>(dx + (s * seq_len + t) * cols + c, v);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += v[i];
    }
    store<N>(out, sum);
  }
}

template <class T>
void table_bwd(const KernelContext& exec, const EmbeddingBwdArgs& args, bool packed) {
  const std::int64_t cols = args.dx.shape.dim(-1), num_ids = args.dtable.shape[0];
  const std::int64_t places = args.tokens.num_elems();
  TRIREME_CHECK(places <= 0x7fffffff && num_ids <= 0x7fffffff,
                "embedding_bwd on cuda: {} tokens are too many", places);
  const EmbeddingWorkspace bytes(args);
  const Workspace workspace(exec, static_cast<std::size_t>(bytes.buckets));
  const Workspace partials(exec, static_cast<std::size_t>(bytes.partials));
  Buckets b{};
  b.count = workspace.as<int>();
  b.filled = b.count + num_ids;
  b.cursor = b.filled + num_ids;
  b.first = b.cursor + 1;
  b.slots = b.first + num_ids;
  b.sorted = b.slots + places;
  fill_zero(exec, {b.count, DType::kInt32, Shape{2 * num_ids + 1}});
  const auto* tokens = args.tokens.as<std::int32_t>();
  const Ids ids{.first = std::max<std::int64_t>(0, args.first_id), .count = num_ids};
  const int n = static_cast<int>(places);
  const dim3 by_place = grid_of(ceil_div(places, kThreads));
  launch(exec, "embedding_bwd", by_place, kThreads, 0, count_kernel, tokens, n, ids, b);
  launch(exec, "embedding_bwd", grid_of(ceil_div(num_ids, kThreads)), kThreads, 0, begin_kernel,
         static_cast<int>(num_ids), b);
  launch(exec, "embedding_bwd", by_place, kThreads, 0, fill_kernel, tokens, n, ids, b);
  launch(exec, "embedding_bwd", by_place, kThreads, 0, sort_kernel, tokens, n, ids, b);
  with_pack<T>(packed, [&]<int N>(std::integral_constant<int, N>) {
    launch(exec, "embedding_bwd", grid_of(places), kRowThreads, 0, embedding_bwd_kernel<T, N>,
           args.dx.as<T>(), tokens, ids, b, args.dtable.as<float>(), partials.as<float>(), cols);
  });
  dim3 grid = grid_of(ceil_div(places, kEmbeddingSegment));
  grid.y = static_cast<unsigned>(ceil_div(cols, kThreads));
  launch(exec, "embedding_bwd", grid, kThreads, 0, join_segments_kernel, tokens, ids, b,
         args.dtable.as<float>(), partials.as<float>(), cols);
}

template <class T>
void positions_bwd(const KernelContext& exec, const EmbeddingBwdArgs& args, bool packed) {
  const std::int64_t cols = args.dx.shape.dim(-1), seq_len = args.tokens.shape.dim(-1);
  with_pack<T>(packed, [&]<int N>(std::integral_constant<int, N>) {
    launch(exec, "embedding_bwd", grid_of(seq_len), kRowThreads, 0, positions_bwd_kernel<T, N>,
           args.dx.as<T>(), args.dpositions.as<float>(), args.tokens.num_elems() / seq_len, seq_len, cols,
           args.dpositions_mode == GradientMode::kAccumulate);
  });
}

}  // namespace

void run_op(const KernelContext& exec, const EmbeddingFwdArgs& args) {
  const std::int64_t places = args.tokens.num_elems(), cols = args.table.shape[1];
  assert(args.x.num_elems() == places * cols);
  check_dtype("embedding_fwd", args.x.dtype, {args.table, args.positions});
  check_dtype("embedding_fwd", DType::kInt32, {args.tokens});
  if (places == 0 || cols == 0) return;
  for_float_type("embedding_fwd", args.x.dtype, [&]<class T>(T) {
    with_pack<T>(rows_are_packable(cols, sizeof(T), {args.table.data, args.positions.data, args.x.data}),
                 [&]<int N>(std::integral_constant<int, N>) {
                   const auto run = [&](auto kernel, auto... more) {
                     launch(exec, "embedding_fwd", grid_of(places), kRowThreads, 0, kernel,
                            args.tokens.as<std::int32_t>(), args.table.as<T>(), args.positions.as<T>(),
                            args.x.as<T>(), args.tokens.shape.dim(-1), cols, more...);
                   };
                   if (args.first_id < 0) {
                     run(embedding_fwd_kernel<T, N>);
                   } else {
                     run(embedding_piece_kernel<T, N>, Ids{args.first_id, args.table.shape[0]});
                   }
                 });
  });
}

void run_op(const KernelContext& exec, const EmbeddingBwdArgs& args) {
  const std::int64_t places = args.tokens.num_elems(), cols = args.dx.shape.dim(-1);
  assert(args.dx.num_elems() == places * cols);
  check_dtype("embedding_bwd", DType::kFloat32, {args.dtable, args.dpositions});
  check_dtype("embedding_bwd", DType::kInt32, {args.tokens});
  if (args.dtable_mode == GradientMode::kOverwrite) fill_zero(exec, args.dtable);
  // Clears all positions, because positions beyond the sequence have no token.
  if (args.dpositions_mode == GradientMode::kOverwrite) fill_zero(exec, args.dpositions);
  if (places == 0 || cols == 0) return;
  for_float_type("embedding_bwd", args.dx.dtype, [&]<class T>(T) {
    const bool packed =
        rows_are_packable(cols, sizeof(T), {args.dx.data, args.dtable.data, args.dpositions.data});
    if (args.dtable_mode != GradientMode::kIgnore) table_bwd<T>(exec, args, packed);
    if (args.dpositions_mode != GradientMode::kIgnore) positions_bwd<T>(exec, args, packed);
  });
}

}  // namespace trireme::cuda
