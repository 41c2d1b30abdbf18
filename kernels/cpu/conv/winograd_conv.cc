// [Note: Winograd] A 3 x 3 convolution with stride 1 is split into squares of 4 x 4 output pixels. The 6 x 6
// input pixels of a square and the weight are evaluated as polynomials at 6 x 6 points. There, the
// convolution is one product per point, summed over channels. So 36 matrix products [squares, channels]
// replace 144 multiplications a square (Winograd 1980; Lavin & Gray 2015). The points 0, +-5/8, +-3/2 and
// infinity keep the factors near 1. Relative errors, measured with 64 to 512 channels against fp64: 7e-7 to
// 2.1e-6 in forward, 1.8 times the errors of direct summation; 4e-7 to 9.3e-7 for a weight gradient, 4 to 6
// times.
//
// The gradient of the input is the same computation with the kernel rotated and its matrices transposed. The
// gradient of the weight sums, at each point, the products of input and output gradient over all squares, in
// order.
//
// All sums run in index order, independent of the thread, so no layout changes a bit. A NaN or infinity in a
// pixel turns its whole square into NaN.
#include "kernels/cpu/conv/winograd_conv.h"

#include <algorithm>

#include "kernels/cpu/conv/winograd_squares.h"
#include "kernels/cpu/launch.h"

namespace trireme::cpu {
namespace {

using namespace winograd;  // NOLINT(google-build-using-namespace): names of this topic

/// The weight at the points, as `depth` x `cols` matrices in panels of kPanel columns.
class WeightPoints {
 public:
  enum class Side { kOutputs, kInputs };  // which channels are the columns

  WeightPoints(const KernelContext& exec, const float* weight, const ConvShape& shape, Side columns)
      : weight_(weight),
        channels_(shape.channels),
        columns_(columns),
        depth_(columns == Side::kOutputs ? shape.channels : shape.outputs),
        cols_(columns == Side::kOutputs ? shape.outputs : shape.channels),
        pitch_(spread(depth_ * round_up(cols_, kPanel))),
        memory_(exec, kPoints * pitch_) {
    const std::int64_t across = cols_ / kBlock;
    for_each_piece(exec, depth_ / kBlock * across, depth_ * cols_, [&](std::int64_t piece) {
      transform_block(piece / across * kBlock, piece % across * kBlock);
    });
  }

  const float* panel(std::int64_t point, std::int64_t col) const {
    return memory_.data() + point * pitch_ + col * depth_;
  }

 private:
  void transform_block(std::int64_t first, std::int64_t col) const {
    float taps[kBlock * kTaps * kBlock];  // [depth, tap, column]
    const auto transpose = [&](std::int64_t from, std::int64_t pitch, std::int64_t width, float* to) {
      numerics().cast->read_transposed({.x = weight_ + from,
                                        .element = Element::kFp32,
                                        .x_pitch = pitch,
                                        .rows = kBlock,
                                        .cols = width,
                                        .y = to,
                                        .y_pitch = kBlock});
    };
    if (columns_ == Side::kOutputs) {
      transpose((col * channels_ + first) * kTaps, channels_ * kTaps, kBlock * kTaps, taps);
    } else {
      for (std::int64_t d = 0; d < kBlock; ++d) {
        transpose(((first + d) * channels_ + col) * kTaps, kTaps, kTaps, taps + d * kTaps * kBlock);
      }
    }
    const std::int64_t panel = col / kPanel * kPanel;
    for (std::int64_t d = 0; d < kBlock; ++d) {
      of_machine().weight_to_points(taps + d * kTaps * kBlock, columns_ == Side::kInputs,
                                    memory_.data() + panel * depth_ + (first + d) * kPanel + (col - panel),
                                    pitch_);
    }
  }

  const float* const weight_;
  const std::int64_t channels_;
  const Side columns_;
  const std::int64_t depth_, cols_, pitch_;
  const Workspace memory_;
};

/// y = x * weight, for forward and for backward to the input.
struct Filter {
  const float* x;
  Images in;
  std::int64_t padding;
  const WeightPoints& weight;
  const float *bias, *addend;  // or null
  float* y;
  Images out;
};

/// Squares that a thread transforms and multiplies in one go. Measured (1 MiB of L2 per core, 64 to 512
/// channels): 16 to 24 are fastest; 48 and more do not fit the cache.
std::int64_t squares_of_piece(std::int64_t squares) {
  constexpr std::int64_t kFewest = 16, kMost = 24, kWantedPieces = 8;
  return std::clamp(round_up(ceil_div(squares, kWantedPieces), kStrip), kFewest, kMost);
}

void filter(const KernelContext& exec, std::int64_t images, const Filter& f) {
  const Squares squares(images, f.out.height, f.out.width);
  const std::int64_t of_piece = squares_of_piece(squares.count());
  const std::int64_t in_pitch = spread(of_piece * f.in.channels);
  const std::int64_t out_pitch = spread(of_piece * f.out.channels);
  const ThreadScratch scratch(exec, kPoints * (in_pitch + out_pitch));
  const std::int64_t work = squares.count() * f.in.channels * f.out.channels;
  for_each_piece(exec, ceil_div(squares.count(), of_piece), work, [&](std::int64_t piece) {
    const std::int64_t first = piece * of_piece, count = std::min(of_piece, squares.count() - first);
    float *const inputs = scratch.mine(), *const outputs = inputs + kPoints * in_pitch;
    for (std::int64_t s = 0; s < count; ++s) {
      const Squares::Square at = squares.at(first + s);
      const std::int64_t row = at.row - f.padding, col = at.col - f.padding;
      of_machine().input_to_points(f.in.patch(row, col, kIn), f.x + f.in.offset(at.image, row, col),
                                   {inputs + s * f.in.channels, in_pitch, kPanel});
    }
    for (std::int64_t point = 0; point < kPoints; ++point) {
      for (std::int64_t col = 0; col < f.out.channels; col += kPanel) {
        of_machine().product({.a = inputs + point * in_pitch,
                              .a_pitch = f.in.channels,
                              .b = f.weight.panel(point, col),
                              .b_pitch = kPanel,
                              .c = outputs + point * out_pitch + col,
                              .c_pitch = f.out.channels,
                              .rows = round_up(count, kStrip),
                              .cols = std::min(kPanel, f.out.channels - col),
                              .depth = f.in.channels,
                              .accumulate = false});
      }
    }
    for (std::int64_t s = 0; s < count; ++s) {
      const Squares::Square at = squares.at(first + s);
      const std::int64_t offset = f.out.offset(at.image, at.row, at.col);
      of_machine().points_to_output(f.out.patch(at.row, at.col, kOut),
                                    {outputs + s * f.out.channels, out_pitch, kPanel}, f.bias,
                                    f.addend != nullptr ? f.addend + offset : nullptr, f.y + offset);
    }
  });
}

}  // namespace

// Minimal filtering pays off when enough squares share the cost of transforming the weight. The limits were
// chosen between shapes that were measured against oneDNN.
//  * 256 channels: 0.73 of oneDNN's speed with 64 squares (weight gradient 1.3), faster with 256 squares.
//  * 512 channels: equal speed with 64 squares (weight gradient 2.0). With 4 to 32 squares it is slower;
//    only the weight gradient with 32 is not.
//  * Weights that stay in the cache: faster with 64 squares, the smallest number tried.
bool takes_winograd(ConvKind kind, const ConvShape& s, DType dtype, MathMode math) {
  constexpr std::int64_t kCached = 128 * 128;  // channels x outputs
  if (dtype != DType::kFloat32 || math != MathMode::kFp32 || s.kernel_height != 3 || s.kernel_width != 3 ||
      s.stride != 1 || s.groups != 1 || s.padding > 2 || s.channels % kBlock != 0 ||
      s.outputs % kBlock != 0) {
    return false;
  }
  const bool weight = kind == ConvKind::kBwdWeight;
  if (weight && std::min(s.channels, s.outputs) < kPanel)
    return false;  // half of every product would be empty
  const std::int64_t squares = s.images * ceil_div(s.out_height, kOut) * ceil_div(s.out_width, kOut);
  return squares >= (s.channels * s.outputs <= kCached ? 16 : weight ? 64 : 128);
}

void winograd_conv_fwd(const KernelContext& exec, const ConvShape& s, const Conv2dFwdArgs& args) {
  const WeightPoints weight(exec, args.weight.as<float>(), s, WeightPoints::Side::kOutputs);
  filter(exec, s.images,
         {.x = args.x.as<float>(),
          .in = {s.height, s.width, s.channels},
          .padding = s.padding,
          .weight = weight,
          .bias = args.bias.defined() ? args.bias.as<float>() : nullptr,
          .addend = nullptr,
          .y = args.y.as<float>(),
          .out = {s.out_height, s.out_width, s.outputs}});
}

void winograd_conv_bwd_data(const KernelContext& exec, const ConvShape& s, const Conv2dBwdDataArgs& args) {
  const WeightPoints weight(exec, args.weight.as<float>(), s, WeightPoints::Side::kInputs);
  filter(exec, s.images,
         {.x = args.dy.as<float>(),
          .in = {s.out_height, s.out_width, s.outputs},
          .padding = 2 - s.padding,
          .weight = weight,
          .bias = nullptr,
          .addend = args.dx_add.defined() ? args.dx_add.as<float>() : nullptr,
          .y = args.dx.as<float>(),
          .out = {s.height, s.width, s.channels}});
}

}  // namespace trireme::cpu
