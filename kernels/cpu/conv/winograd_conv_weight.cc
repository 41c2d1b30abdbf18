// Weight gradients by minimal filtering: see [Note: Winograd] in winograd_conv.cc.
#include <algorithm>

#include "kernels/cpu/conv/winograd_conv.h"
#include "kernels/cpu/conv/winograd_squares.h"
#include "kernels/cpu/launch.h"

namespace trireme::cpu {
namespace {

using namespace winograd;  // NOLINT(google-build-using-namespace): names of this topic

// Measured as in winograd_conv.cc: 64 and more are fastest, until both sides no longer fit the cache.
constexpr std::int64_t kSquaresOfPass = 128;

/// The weight gradient's sums at the points, [channels, outputs] each.
class GradientPoints {
 public:
  GradientPoints(const KernelContext& exec, const ConvShape& shape)
      : exec_(exec),
        shape_(shape),
        squares_(shape.images, shape.out_height, shape.out_width),
        in_{shape.height, shape.width, shape.channels},
        out_{shape.out_height, shape.out_width, shape.outputs},
        of_piece_(std::min(squares_.count(), kSquaresOfPass)),
        in_pitch_(spread(of_piece_ * round_up(shape.channels, kPanel))),
        out_pitch_(spread(of_piece_ * round_up(shape.outputs, kPanel))),
        pitch_(spread(shape.channels * shape.outputs)),
        inputs_(exec, kPoints * in_pitch_),
        outputs_(exec, kPoints * out_pitch_),
        sums_(exec, kPoints * pitch_) {}

  void sum(const float* x, const float* dy) const {
    for (std::int64_t first = 0; first < squares_.count(); first += of_piece_) {
      const std::int64_t count = std::min(of_piece_, squares_.count() - first);
      transform(x, dy, first, count);
      multiply(count, first > 0);
    }
  }

  // gradient [outputs, channels, 3, 3].
  void write_to(float* gradient, GradientMode mode) const {
    const std::int64_t across = shape_.outputs / kBlock;
    for_each_piece(exec_, shape_.channels / kBlock * across, shape_.weight_elems(), [&](std::int64_t piece) {
      write_block(piece / across * kBlock, piece % across * kBlock, gradient, mode);
    });
  }

 private:
  void transform(const float* x, const float* dy, std::int64_t first, std::int64_t count) const {
    const std::int64_t padding = shape_.padding;
    for_each_piece(exec_, count, count * (shape_.channels + shape_.outputs) * kPoints, [&](std::int64_t s) {
      const Squares::Square at = squares_.at(first + s);
      const std::int64_t row = at.row - padding, col = at.col - padding;
      of_machine().input_to_points(in_.patch(row, col, kIn), x + in_.offset(at.image, row, col),
                                   {inputs_.data() + s * kPanel, in_pitch_, of_piece_ * kPanel});
      of_machine().output_gradient_to_points(out_.patch(at.row, at.col, kOut),
                                             dy + out_.offset(at.image, at.row, at.col),
                                             {outputs_.data() + s * kPanel, out_pitch_, of_piece_ * kPanel});
    });
  }

  void multiply(std::int64_t count, bool accumulate) const {
    const std::int64_t down = ceil_div(shape_.channels, kPanel);
    const std::int64_t work = kPoints * count * shape_.channels * shape_.outputs;
    for_each_piece(exec_, kPoints * down, work, [&](std::int64_t piece) {
      const std::int64_t point = piece / down, row = piece % down * kPanel;
      for (std::int64_t col = 0; col < shape_.outputs; col += kPanel) {
        of_machine().product_of_columns({.a = inputs_.data() + point * in_pitch_ + row * of_piece_,
                                         .a_pitch = kPanel,
                                         .b = outputs_.data() + point * out_pitch_ + col * of_piece_,
                                         .b_pitch = kPanel,
                                         .c = sums_.data() + point * pitch_ + row * shape_.outputs + col,
                                         .c_pitch = shape_.outputs,
                                         .rows = std::min(kPanel, shape_.channels - row),
                                         .cols = std::min(kPanel, shape_.outputs - col),
                                         .depth = count,
                                         .accumulate = accumulate});
      }
    });
  }

  void write_block(std::int64_t row, std::int64_t col, float* gradient, GradientMode mode) const {
    float taps[kBlock * kTaps * kBlock], rows[kBlock * kTaps * kBlock];  // [channel, tap, output] and back
    for (std::int64_t i = 0; i < kBlock; ++i) {
      of_machine().points_to_weight(sums_.data() + (row + i) * shape_.outputs + col, pitch_,
                                    taps + i * kTaps * kBlock);
    }
    const std::int64_t pitch = shape_.channels * kTaps, width = kBlock * kTaps;
    float* const to = gradient + col * pitch + row * kTaps;
    const bool overwrite = mode == GradientMode::kOverwrite;
    numerics().cast->read_transposed({.x = taps,
                                      .element = Element::kFp32,
                                      .x_pitch = kBlock,
                                      .rows = width,
                                      .cols = kBlock,
                                      .y = overwrite ? to : rows,
                                      .y_pitch = overwrite ? pitch : width});
    if (overwrite) return;
    for (std::int64_t o = 0; o < kBlock; ++o) {
      numerics().elementwise->add(to + o * pitch, rows + o * width, to + o * pitch, width);
    }
  }

  const KernelContext& exec_;
  const ConvShape& shape_;
  const Squares squares_;
  const Images in_, out_;
  const std::int64_t of_piece_, in_pitch_, out_pitch_, pitch_;
  const Workspace inputs_, outputs_, sums_;
};

}  // namespace

void winograd_conv_bwd_weight(const KernelContext& exec, const ConvShape& shape,
                              const Conv2dBwdWeightArgs& args) {
  const GradientPoints points(exec, shape);
  points.sum(args.x.as<float>(), args.dy.as<float>());
  points.write_to(args.dweight.as<float>(), args.mode);
}

}  // namespace trireme::cpu
