#include <cassert>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {
namespace {

// The window slides over `x` [B, H, W, C] and gives `y`.
PoolImage image_of(const Shape& x, const Shape& y, const PoolWindow& window) {
  assert(x.rank() == 4 && y.rank() == 4 && x[0] == y[0] && x[3] == y[3]);
  assert(y[1] == (x[1] + 2 * window.padding - window.height) / window.stride + 1);
  assert(y[2] == (x[2] + 2 * window.padding - window.width) / window.stride + 1);
  return {.height = x[1],
          .width = x[2],
          .channels = x[3],
          .out_height = y[1],
          .out_width = y[2],
          .window_height = window.height,
          .window_width = window.width,
          .stride = window.stride,
          .padding = window.padding};
}

// Runs image(x, y, index of its first output) for every image. `from` is read and `to` is written; 16-bit
// images go through scratch memory of the thread.
template <class Image>
void for_each_image(const KernelContext& exec, ConstTensorView from, TensorView to, std::int64_t window_elems,
                    const Image& image) {
  const std::int64_t images = from.shape[0];
  if (from.num_elems() == 0 || to.num_elems() == 0) return;
  const std::int64_t in = from.num_elems() / images, out = to.num_elems() / images;
  const bool converts = from.dtype != DType::kFloat32;
  const ThreadScratch scratch(exec, converts ? in + out : 0);
  for_each_piece(exec, images, images * std::max(in, out) * window_elems, [&](std::int64_t b) {
    float* buffer = scratch.mine();
    const float* x = read(from, b * in, in, buffer);
    float* y = place(to, b * out, buffer + (converts ? in : 0));
    image(x, y, b);
    write(to, b * out, out, y);
  });
}

}  // namespace

void run_op(const KernelContext& exec, const MaxPoolFwdArgs& args) {
  check_one_float_type("max_pool_fwd", {args.x, args.y});
  const PoolImage image = image_of(args.x.shape, args.y.shape, args.window);
  assert(args.window.height * args.window.width <= 256);
  const std::int64_t out = image.out_height * image.out_width * image.channels;
  for_each_image(exec, args.x, args.y, args.window.height * args.window.width,
                 [&](const float* x, float* y, std::int64_t b) {
                   std::uint8_t* place = args.place.as<std::uint8_t>();
                   numerics().pool->max_fwd(image, x, y, place != nullptr ? place + b * out : nullptr);
                 });
}

void run_op(const KernelContext& exec, const MaxPoolBwdArgs& args) {
  check_one_float_type("max_pool_bwd", {args.dy, args.dx});
  const PoolImage image = image_of(args.dx.shape, args.dy.shape, args.window);
  const std::int64_t out = image.out_height * image.out_width * image.channels;
  for_each_image(exec, args.dy, args.dx, args.window.height * args.window.width,
                 [&](const float* dy, float* dx, std::int64_t b) {
                   numerics().pool->max_bwd(image, dy, args.place.as<std::uint8_t>() + b * out, dx);
                 });
}

void run_op(const KernelContext& exec, const AvgPoolFwdArgs& args) {
  check_one_float_type("avg_pool_fwd", {args.x, args.y});
  const PoolImage image = image_of(args.x.shape, args.y.shape, args.window);
  for_each_image(exec, args.x, args.y, 1,
                 [&](const float* x, float* y, std::int64_t) { numerics().pool->avg_fwd(image, x, y); });
}

void run_op(const KernelContext& exec, const AvgPoolBwdArgs& args) {
  check_one_float_type("avg_pool_bwd", {args.dy, args.dx});
  const PoolImage image = image_of(args.dx.shape, args.dy.shape, args.window);
  for_each_image(exec, args.dy, args.dx, 1,
                 [&](const float* dy, float* dx, std::int64_t) { numerics().pool->avg_bwd(image, dy, dx); });
}

}  // namespace trireme::cpu
