// Convolutions in pieces of images: see [Note: convolution pieces] in conv_primitives.h.
#include <omp.h>

#include <algorithm>
#include <atomic>

#include "kernels/cpu/conv/conv_primitives.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"
#include "runtime/base/error.h"

namespace trireme::cpu {
namespace {

constexpr std::int64_t kLine = 16;  // floats of a cache line
// Below this size, waking threads costs more than it saves.
constexpr std::int64_t kSerialProducts = 1 << 20;

/// The number of images per piece. Small images share a piece, which then reads the weights once. Each piece
/// of a weight gradient writes and adds a full gradient, so large gradients use few pieces.
std::int64_t images_of_piece(ConvKind kind, const ConvShape& shape) {
  constexpr std::int64_t kPixels = 256, kLargeWeight = 1 << 19;
  if (kind == ConvKind::kBwdWeight) {
    return ceil_div(shape.images, shape.weight_elems() >= kLargeWeight ? 4 : 8);
  }
  const std::int64_t pixels = std::max<std::int64_t>(1, shape.out_height * shape.out_width);
  return std::clamp<std::int64_t>(kPixels / pixels, 1, ceil_div(shape.images, 4));
}

std::int64_t floats_of(std::int64_t bytes) {
  return ceil_div(bytes, static_cast<std::int64_t>(sizeof(float)));
}

bool converts(ConstTensorView x, MathMode math) {
  return x.dtype != DType::kFloat32 || math == MathMode::kTf32;
}

// x[first, first + count) in the precision of the product.
const float* read_operand(ConstTensorView x, MathMode math, std::int64_t first, std::int64_t count,
                          float* buffer) {
  if (x.dtype != DType::kFloat32 || math != MathMode::kTf32) return read(x, first, count, buffer);
  numerics().cast->read(x.as<float>() + first, Element::kTf32, buffer, count);
  return buffer;
}

/// A call, split into pieces.
class PieceRun {
 public:
  PieceRun(const KernelContext& exec, ConvKind kind, const ConvShape& shape, std::int64_t scratch_of_image)
      : exec_(exec),
        shape_(shape),
        images_(images_of_piece(kind, shape)),
        primitives_(conv_primitives_of(exec)) {
    num_pieces_ = ceil_div(shape.images, images_);
    whole_ = &primitive(kind, std::min(images_, shape.images));
    const std::int64_t rest = shape.images % images_;
    rest_ = rest > 0 && num_pieces_ > 1 ? &primitive(kind, rest) : whole_;
    scratchpad_ =
        ceil_div(floats_of(std::max(whole_->scratchpad_bytes, rest_->scratchpad_bytes)), kLine) * kLine;
    scratch_.emplace(exec, scratchpad_ + images_ * scratch_of_image);
  }

  std::int64_t num_pieces() const { return num_pieces_; }
  const ConvPrimitive& whole() const { return *whole_; }
  ConvPrimitives& primitives() const { return *primitives_; }

  /// The addresses of a piece's tensors. `weight` is in the primitive's layout.
  struct Places {
    const float *x, *weight, *bias, *y;
  };

  /// For every piece, runs places(piece, first image, images, scratch) -> Places, then the primitive, then
  /// after(piece, first image, images, scratch).
  template <class PlacesOf, class After>
  void run(ConvKind kind, const PlacesOf& places, const After& after) const {
    std::atomic<bool> failed{false};
    const int threads = shape_.products() < kSerialProducts ? 1 : exec_.num_threads;
#pragma omp parallel num_threads(threads)
    {
      omp_set_num_threads(1);  // only for the threads of this region
      dnnl::stream stream(primitives_->engine());
#pragma omp for schedule(dynamic)
      for (std::int64_t piece = 0; piece < num_pieces_; ++piece) {
        const std::int64_t first = piece * images_, count = std::min(images_, shape_.images - first);
        float* const mine = scratch_->mine();
        float* const scratch = mine != nullptr ? mine + scratchpad_ : nullptr;
        try {
          execute(kind, count == images_ ? *whole_ : *rest_, places(piece, first, count, scratch), mine,
                  stream);
        } catch (const dnnl::error&) {
          failed = true;
        }
        after(piece, first, count, scratch);
      }
    }
    if (failed) throw Error(ErrorCode::kRuntime, "a convolution of oneDNN failed");
  }

 private:
  const ConvPrimitive& primitive(ConvKind kind, std::int64_t images) {
    ConvShape piece = shape_;
    piece.images = images;
    return primitives_->get(kind, piece);
  }

  void execute(ConvKind kind, const ConvPrimitive& primitive, const Places& at, float* scratchpad,
               dnnl::stream& stream) const {
    const auto memory = [&](const dnnl::memory::desc& desc, const float* data) {
      return dnnl::memory(desc, primitives_->engine(),
                          const_cast<float*>(data));  // oneDNN has no const memory
    };
    const bool fwd = kind == ConvKind::kFwd, data = kind == ConvKind::kBwdData;
    std::unordered_map<int, dnnl::memory> args{
        {data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, memory(primitive.x, at.x)},
        {fwd || data ? DNNL_ARG_WEIGHTS : DNNL_ARG_DIFF_WEIGHTS, memory(primitive.weight, at.weight)},
        {fwd ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, memory(primitive.y, at.y)}};
    if (at.bias != nullptr) args.emplace(DNNL_ARG_BIAS, memory(primitive.bias, at.bias));
    if (primitive.scratchpad_bytes > 0) {
      const dnnl::memory::desc bytes({primitive.scratchpad_bytes}, dnnl::memory::data_type::u8,
                                     dnnl::memory::format_tag::x);
      args.emplace(DNNL_ARG_SCRATCHPAD, memory(bytes, scratchpad));
    }
    primitive.primitive.execute(stream, args);
  }

  const KernelContext& exec_;
  const ConvShape shape_;
  const std::int64_t images_;
  const std::shared_ptr<ConvPrimitives> primitives_;
  std::int64_t num_pieces_ = 0;
  const ConvPrimitive *whole_ = nullptr, *rest_ = nullptr;  // for all pieces but the last; for the last
  std::int64_t scratchpad_ = 0;                             // floats
  std::optional<ThreadScratch> scratch_;                    // scratchpad, then the caller's
};

/// The weight in the layout of a primitive.
class PackedWeight {
 public:
  PackedWeight(const KernelContext& exec, const PieceRun& run, const ConvShape& shape, ConstTensorView weight,
               MathMode math)
      : memory_(exec, run.whole().weight_floats()) {
    const std::int64_t count = weight.num_elems();
    const Workspace plain(exec, converts(weight, math) ? count : 1);
    run.primitives().pack_weight(shape, run.whole(), read_operand(weight, math, 0, count, plain.data()),
                                 memory_.data());
  }
  const float* data() const { return memory_.data(); }

 private:
  const Workspace memory_;
};

const auto nothing_after = [](std::int64_t, std::int64_t, std::int64_t, float*) {};

}  // namespace

void conv_fwd_by_pieces(const KernelContext& exec, const ConvShape& of_call, const Conv2dFwdArgs& args) {
  ConvShape shape = of_call;
  shape.has_bias = args.bias.defined();
  const std::int64_t in = shape.image_elems(), out = shape.out_image_elems();
  const std::int64_t x_scratch = converts(args.x, args.math) ? in : 0;
  const std::int64_t y_scratch = args.y.dtype != DType::kFloat32 ? out : 0;
  const PieceRun run(exec, ConvKind::kFwd, shape, x_scratch + y_scratch);
  const PackedWeight weight(exec, run, shape, args.weight, args.math);
  const Workspace bias_memory(exec, shape.outputs);
  const float* bias = read(args.bias, 0, shape.outputs, bias_memory.data());
  const auto y_at = [&](std::int64_t first, std::int64_t count, float* scratch) {
    return place(args.y, first * out, scratch + count * x_scratch);
  };
  run.run(
      ConvKind::kFwd,
      [&](std::int64_t, std::int64_t first, std::int64_t count, float* scratch) {
        return PieceRun::Places{.x = read_operand(args.x, args.math, first * in, count * in, scratch),
                                .weight = weight.data(),
                                .bias = bias,
                                .y = y_at(first, count, scratch)};
      },
      [&](std::int64_t, std::int64_t first, std::int64_t count, float* scratch) {
        write(args.y, first * out, count * out, y_at(first, count, scratch));
      });
}

void conv_bwd_data_by_pieces(const KernelContext& exec, const ConvShape& shape,
                             const Conv2dBwdDataArgs& args) {
  const std::int64_t in = shape.image_elems(), out = shape.out_image_elems();
  const std::int64_t y_scratch = converts(args.dy, args.math) ? out : 0;
  const bool apart = args.dx_add.defined() || args.dx.dtype != DType::kFloat32;
  const std::int64_t x_scratch = apart ? in : 0;
  const PieceRun run(exec, ConvKind::kBwdData, shape, x_scratch + y_scratch);
  const PackedWeight weight(exec, run, shape, args.weight, args.math);
  const auto x_at = [&](std::int64_t first, std::int64_t count, float* scratch) {
    return apart ? scratch + count * y_scratch : place(args.dx, first * in, nullptr);
  };
  run.run(
      ConvKind::kBwdData,
      [&](std::int64_t, std::int64_t first, std::int64_t count, float* scratch) {
        return PieceRun::Places{.x = x_at(first, count, scratch),
                                .weight = weight.data(),
                                .bias = nullptr,
                                .y = read_operand(args.dy, args.math, first * out, count * out, scratch)};
      },
      [&](std::int64_t, std::int64_t first, std::int64_t count, float* scratch) {
        float* const dx = x_at(first, count, scratch);
        if (args.dx_add.defined()) add_to(dx, args.dx_add, first * in, count * in);
        write(args.dx, first * in, count * in, dx);
      });
}

void conv_bwd_weight_by_pieces(const KernelContext& exec, const ConvShape& shape,
                               const Conv2dBwdWeightArgs& args) {
  const std::int64_t in = shape.image_elems(), out = shape.out_image_elems();
  const std::int64_t x_scratch = converts(args.x, args.math) ? in : 0;
  const std::int64_t y_scratch = converts(args.dy, args.math) ? out : 0;
  const PieceRun run(exec, ConvKind::kBwdWeight, shape, x_scratch + y_scratch);
  const std::int64_t floats = run.whole().weight_floats(), pitch = ceil_div(floats, kLine) * kLine;
  const Workspace sums(exec, pitch * run.num_pieces());
  run.run(
      ConvKind::kBwdWeight,
      [&](std::int64_t piece, std::int64_t first, std::int64_t count, float* scratch) {
        return PieceRun::Places{
            .x = read_operand(args.x, args.math, first * in, count * in, scratch),
            .weight = sums.data() + piece * pitch,
            .bias = nullptr,
            .y = read_operand(args.dy, args.math, first * out, count * out, scratch + count * x_scratch)};
      },
      nothing_after);
  for_each_range(exec, floats, kBuffer, [&](std::int64_t first, std::int64_t count) {
    float* sum = sums.data() + first;
    for (std::int64_t p = 1; p < run.num_pieces(); ++p) {
      numerics().elementwise->add(sum, sums.data() + p * pitch + first, sum, count);
    }
  });
  float* const gradient = args.dweight.as<float>();
  if (args.mode == GradientMode::kOverwrite) {
    return run.primitives().unpack_weight(shape, run.whole(), sums.data(), gradient);
  }
  const Workspace plain(exec, shape.weight_elems());
  run.primitives().unpack_weight(shape, run.whole(), sums.data(), plain.data());
  for_each_range(exec, shape.weight_elems(), kBuffer, [&](std::int64_t first, std::int64_t count) {
    numerics().elementwise->add(gradient + first, plain.data() + first, gradient + first, count);
  });
}

}  // namespace trireme::cpu
