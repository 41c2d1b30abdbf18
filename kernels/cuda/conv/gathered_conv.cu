#include "kernels/cuda/conv/gathered_conv.h"

#include <algorithm>
#include <limits>

#include "kernels/cuda/conv/conv_gather.cuh"
#include "kernels/cuda/conv/conv_weight.h"
#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/ops.h"
#include "kernels/product_workspace.h"

namespace trireme::cuda {
namespace {

constexpr int kPixelsAThread = 8;

// Writes the windows of x, from pixel `first` on, to windows[pixels, packs * N]: R S C columns, then zeros. A
// thread writes the same 16 bytes of the rows of up to kPixelsAThread pixels that are `groups` apart, so it
// computes the position within a window only once.
template <class T>
__global__ void __launch_bounds__(kThreads) gather_kernel(ConvShape s, const T* x, T* windows, int first,
                                                          int pixels, int groups, int columns, int packs) {
  constexpr int N = kPack<T>;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (thread >= std::int64_t{groups} * packs) return;
  const int group = static_cast<int>(thread / packs), pack = static_cast<int>(thread % packs);
  int row[N], col[N], offset[N];
#pragma unroll
  for (int e = 0; e < N; ++e) {
    const int column = pack * N + e;
    const KernelPlace k = kernel_place(s, column, s.channels);
    row[e] = column < columns ? k.row : s.height + s.padding;  // outside every image
    col[e] = k.col;
    offset[e] = (k.row * s.width + k.col) * s.channels + k.channel;
  }
#pragma unroll 2
  for (int i = 0; i < kPixelsAThread; ++i) {
    const int pixel = group + i * groups;
    if (pixel >= pixels) return;
    const WindowPlace window = window_of(s, first + pixel);
    const std::int64_t corner =
        window.image + (std::int64_t{window.top} * s.width + window.left) * s.channels;
    Pack<T, N> out;
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const int h = window.top + row[e], w = window.left + col[e];
      const bool inside = h >= 0 && h < s.height && w >= 0 && w < s.width;
      out.elems[e] = inside ? x[corner + offset[e]] : from_float<T>(0.0f);
    }
    reinterpret_cast<Pack<T, N>*>(windows)[std::int64_t{pixel} * packs + pack] = out;
  }
}

// The windows of a call's images as matrices of rows of `pitch`, one chunk at a time.
struct Windows {
  const char* op;
  ConvShape shape;
  ConstTensorView x;
  std::int64_t pitch;
  std::int64_t pixels = std::int64_t{shape.images} * shape.out_height * shape.out_width;
  std::int64_t chunk = window_chunk(pixels, pitch, x.dtype);

  // Gathers [count, pitch] from pixel `first` on into `memory`.
  ConstTensorView gather(const KernelContext& exec, void* memory, std::int64_t first,
                         std::int64_t count) const {
    const std::int64_t reach = std::int64_t{shape.kernel_height} * shape.width * shape.channels;
    TRIREME_CHECK(reach <= std::numeric_limits<int>::max(),
                  "{} on cuda: {} rows of an image of {} pixels and {} channels are too far apart", op,
                  shape.kernel_height, shape.width, shape.channels);
    for_float_type(op, x.dtype, [&]<class T>(T) {
      const auto packs = static_cast<int>(pitch / kPack<T>),
                 groups = static_cast<int>(ceil_div(count, kPixelsAThread));
      launch(exec, op, grid_of(ceil_div(std::int64_t{groups} * packs, kThreads)), kThreads, 0,
             gather_kernel<T>, shape, x.as<T>(), static_cast<T*>(memory), static_cast<int>(first),
             static_cast<int>(count), groups, shape.kernel_height * shape.kernel_width * shape.channels,
             packs);
    });
    return {memory, x.dtype, Shape{count, pitch}};
  }
  std::size_t bytes() const { return static_cast<std::size_t>(chunk * pitch * size_bytes(x.dtype)); }
};

// Rows [first, first + count) of channels-last images as a matrix.
template <class View>
View pixel_rows(View images, std::int64_t first, std::int64_t count) {
  const std::int64_t cols = images.shape[3];
  using Byte = std::conditional_t<std::is_same_v<View, TensorView>, std::byte, const std::byte>;
  images.data = static_cast<Byte*>(images.data) + first * cols * size_bytes(images.dtype);
  images.shape = Shape{count, cols};
  return images;
}

}  // namespace

void gathered_fwd(const KernelContext& exec, const Conv2dFwdArgs& args) {
  constexpr const char* kOp = "conv2d_fwd";
  const Windows windows{kOp, conv_shape(args.x.shape, args.weight.shape, args.y.shape, args.geometry), args.x,
                        window_pitch(args.weight.shape)};
  const std::int64_t outputs = args.y.shape[3];
  const Workspace weight(exec, static_cast<std::size_t>(outputs * windows.pitch * size_bytes(args.x.dtype)));
  pack_conv_weight(exec, kOp, windows.shape, args.weight, windows.pitch, weight.as<void>());
  const Workspace memory(exec, windows.bytes());
  for (std::int64_t first = 0; first < windows.pixels; first += windows.chunk) {
    const std::int64_t count = std::min(windows.chunk, windows.pixels - first);
    run_op(exec, MatmulArgs{.a = windows.gather(exec, memory.as<void>(), first, count),
                            .b = {weight.as<void>(), args.x.dtype, Shape{outputs, windows.pitch}},
                            .d = pixel_rows(args.y, first, count),
                            .transpose_b = Transpose::kYes,
                            .math = args.math,
                            .bias = args.bias});
  }
}

void gathered_bwd_weight(const KernelContext& exec, const Conv2dBwdWeightArgs& args) {
  constexpr const char* kOp = "conv2d_bwd_weight";
  const Windows windows{kOp, conv_shape(args.x.shape, args.dweight.shape, args.dy.shape, args.geometry),
                        args.x, window_pitch(args.dweight.shape)};
  const Shape gradient{args.dy.shape[3], windows.pitch};
  const Workspace packed(exec, static_cast<std::size_t>(gradient.num_elems()) * sizeof(float));
  const Workspace memory(exec, windows.bytes());
  for (std::int64_t first = 0; first < windows.pixels; first += windows.chunk) {
    const std::int64_t count = std::min(windows.chunk, windows.pixels - first);
    run_op(exec, MatmulArgs{.a = pixel_rows(args.dy, first, count),
                            .b = windows.gather(exec, memory.as<void>(), first, count),
                            .d = {packed.as<void>(), DType::kFloat32, gradient},
                            .transpose_a = Transpose::kYes,
                            .math = args.math,
                            .mode = first == 0 ? GradientMode::kOverwrite : GradientMode::kAccumulate});
  }
  unpack_conv_gradient(exec, kOp, windows.shape, packed.as<float>(), windows.pitch, args.dweight, args.mode);
}

}  // namespace trireme::cuda
