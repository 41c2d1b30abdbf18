#include "kernels/cuda/conv/native_conv.h"

#include <algorithm>

#include "kernels/cuda/conv/conv_gather.cuh"
#include "kernels/cuda/conv/conv_weight.h"
#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/matmul/column_sum.cuh"

namespace trireme::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads)
    conv_fwd_kernel(ConvShape s, const T* x, const T* weight, const T* bias, T* y) {
  const int group = static_cast<int>(blockIdx.z), depth = s.kernel_height * s.kernel_width * s.in_group;
  const ProductPart part{.first_row = static_cast<int>(blockIdx.x) * kProductTile,
                         .rows = s.images * s.out_height * s.out_width,
                         .first_col = static_cast<int>(blockIdx.y) * kProductTile,
                         .cols = s.out_group,
                         .first_depth = 0,
                         .last_depth = depth};
  tile_product(part, WindowRows<T>{s, x, group}, WeightByOutput<T>{s, weight, group},
               [&](int pixel, int col, float sum) {
                 const int o = group * s.out_group + col;
                 if (bias != nullptr) sum += to_float(bias[o]);
                 y[std::int64_t{pixel} * s.outputs + o] = from_float<T>(sum);
               });
}

// `dx_add` may be `dx`, because each thread reads an element before it writes it.
template <class T>
__global__ void __launch_bounds__(kThreads)
    conv_bwd_data_kernel(ConvShape s, const T* dy, const T* weight, const T* dx_add, T* dx) {
  const int group = static_cast<int>(blockIdx.z), depth = s.kernel_height * s.kernel_width * s.out_group;
  const ProductPart part{.first_row = static_cast<int>(blockIdx.x) * kProductTile,
                         .rows = s.images * s.height * s.width,
                         .first_col = static_cast<int>(blockIdx.y) * kProductTile,
                         .cols = s.in_group,
                         .first_depth = 0,
                         .last_depth = depth};
  tile_product(part, GradientRows<T>{s, dy, group}, WeightByChannel<T>{s, weight, group},
               [&](int pixel, int col, float sum) {
                 const std::int64_t at = std::int64_t{pixel} * s.channels + group * s.in_group + col;
                 if (dx_add != nullptr) sum += to_float(dx_add[at]);
                 dx[at] = from_float<T>(sum);
               });
}

// partials[chunk] [O, R, S, C]: the gradient from one chunk of pixels.
template <class T>
__global__ void __launch_bounds__(kThreads)
    conv_bwd_weight_kernel(ConvShape s, const T* dy, const T* x, float* partials, int chunk_pixels) {
  const int group = static_cast<int>(blockIdx.z) % s.groups, chunk = static_cast<int>(blockIdx.z) / s.groups;
  const int pixels = s.images * s.out_height * s.out_width, first = chunk * chunk_pixels;
  const int cols = s.kernel_height * s.kernel_width * s.in_group;
  const ProductPart part{.first_row = static_cast<int>(blockIdx.x) * kProductTile,
                         .rows = s.out_group,
                         .first_col = static_cast<int>(blockIdx.y) * kProductTile,
                         .cols = cols,
                         .first_depth = first,
                         .last_depth = pixels - first < chunk_pixels ? pixels : first + chunk_pixels};
  float* const to = partials + (std::int64_t{chunk} * s.outputs + group * s.out_group) * cols;
  tile_product(part, GradientCols<T>{s, dy, group}, WindowCols<T>{s, x, group},
               [&](int row, int col, float sum) { to[std::int64_t{row} * cols + col] = sum; });
}

/// A grid of row tiles by column tiles by `apart` independent products.
dim3 tile_grid(const char* op, std::int64_t rows, std::int64_t cols, std::int64_t apart) {
  constexpr std::int64_t kMost = 65535;
  dim3 grid = grid_of(ceil_div(rows, kProductTile));
  const std::int64_t across = ceil_div(cols, kProductTile);
  TRIREME_CHECK(across <= kMost && apart <= kMost,
                "{} on cuda: {} columns and {} groups are too many for the native kernel", op, cols, apart);
  grid.y = static_cast<unsigned>(across);
  grid.z = static_cast<unsigned>(apart);
  return grid;
}

/// The packed weight of a call.
class PackedWeight {
 public:
  PackedWeight(const KernelContext& exec, const char* op, const ConvShape& shape, ConstTensorView weight)
      : memory_(exec, static_cast<std::size_t>(shape.weight_elems() * size_bytes(weight.dtype))) {
    pack_conv_weight(exec, op, shape, weight, packed_pitch(shape), memory_.as<void>());
  }
  template <class T>
  const T* as() const {
    return memory_.as<T>();
  }

 private:
  Workspace memory_;
};

// The number of pixel chunks of a weight gradient, by shape alone: enough to fill a card, few enough to limit
// their memory.
int num_chunks(const ConvShape& shape) {
  constexpr std::int64_t kLeastPixels = 1024, kMostChunks = 64, kMostFloats = std::int64_t{1} << 25;
  const std::int64_t elems = std::max<std::int64_t>(1, shape.weight_elems());
  const std::int64_t most =
      std::min({kMostChunks, kMostFloats / elems, std::int64_t{65535} / std::max(1, shape.groups)});
  const std::int64_t wanted = ceil_div(shape.out_pixels(), kLeastPixels);
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, most)));
}

}  // namespace

void native_conv_fwd(const KernelContext& exec, const Conv2dFwdArgs& args) {
  const ConvShape shape = conv_shape(args.x.shape, args.weight.shape, args.y.shape, args.geometry);
  const PackedWeight weight(exec, "conv2d_fwd", shape, args.weight);
  for_float_type("conv2d_fwd", args.x.dtype, [&]<class T>(T) {
    launch(exec, "conv2d_fwd", tile_grid("conv2d_fwd", shape.out_pixels(), shape.out_group, shape.groups),
           kThreads, 0, conv_fwd_kernel<T>, shape, args.x.as<T>(), weight.as<T>(), args.bias.as<T>(),
           args.y.as<T>());
  });
}

void native_conv_bwd_data(const KernelContext& exec, const Conv2dBwdDataArgs& args) {
  const ConvShape shape = conv_shape(args.dx.shape, args.weight.shape, args.dy.shape, args.geometry);
  const PackedWeight weight(exec, "conv2d_bwd_data", shape, args.weight);
  for_float_type("conv2d_bwd_data", args.dy.dtype, [&]<class T>(T) {
    launch(exec, "conv2d_bwd_data",
           tile_grid("conv2d_bwd_data", shape.pixels(), shape.in_group, shape.groups), kThreads, 0,
           conv_bwd_data_kernel<T>, shape, args.dy.as<T>(), weight.as<T>(), args.dx_add.as<T>(),
           args.dx.as<T>());
  });
}

void native_conv_bwd_weight(const KernelContext& exec, const Conv2dBwdWeightArgs& args) {
  constexpr const char* kOp = "conv2d_bwd_weight";
  const ConvShape shape = conv_shape(args.x.shape, args.dweight.shape, args.dy.shape, args.geometry);
  const int chunks = num_chunks(shape);
  const int chunk_pixels = static_cast<int>(ceil_div(shape.out_pixels(), chunks));
  const std::int64_t elems = shape.weight_elems();
  const Workspace memory(exec, static_cast<std::size_t>((chunks + 1) * elems) * sizeof(float));
  float *const packed = memory.as<float>(), *const partials = packed + elems;
  for_float_type(kOp, args.dy.dtype, [&]<class T>(T) {
    launch(exec, kOp,
           tile_grid(kOp, shape.out_group, elems / shape.outputs, std::int64_t{chunks} * shape.groups),
           kThreads, 0, conv_bwd_weight_kernel<T>, shape, args.dy.as<T>(), args.x.as<T>(), partials,
           chunk_pixels);
  });
  sum_chunks(exec, kOp, {{.partials = partials, .out = packed}}, chunks, elems, elems);
  unpack_conv_gradient(exec, kOp, shape, packed, shape.weight_elems() / shape.outputs, args.dweight,
                       args.mode);
}

}  // namespace trireme::cuda
