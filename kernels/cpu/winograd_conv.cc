// [Note: Winograd] A convolution of 3 x 3 pixels and stride 1 is cut into squares of 4 x 4 output pixels. The
// 6 x 6 pixels that a square reads and the weight are evaluated as polynomials at 6 x 6 points; there, a
// convolution is a product for each point, summed over channels: 36 products of matrices [squares, channels]
// where 144 multiplications a square were (Winograd 1980; Lavin & Gray 2015). The points 0, +-5/8, +-3/2 and
// infinity keep the factors near 1: the error is about 4 times that of direct summation.
//
// The gradient of the input is the same with the kernel turned and its matrices transposed. The gradient of
// the weight sums, at each point, the products of input and output gradient over all squares, in their order.
//
// All sums run in the order of their index whatever a thread computes, so no layout changes a bit. A NaN or
// infinity in a pixel makes NaN of its whole square.
#include "kernels/cpu/winograd_conv.h"

#include <algorithm>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"

namespace trireme::cpu {
namespace {

constexpr int kIn = WinogradNumerics::kInput, kOut = WinogradNumerics::kOutput;
constexpr std::int64_t kPoints = WinogradNumerics::kPoints, kPanel = WinogradPoints::kPanel, kTaps = 9;
constexpr std::int64_t kBlock = WinogradNumerics::kWeightBlock;  // of channels, in a weight
constexpr std::int64_t kStrip = 8;                               // rows that a product computes together
constexpr std::int64_t kLine = 16;                               // floats of a cache line

const WinogradNumerics& winograd() {
  return *numerics().winograd;
}

std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return ceil_div(n, multiple) * multiple;
}

/// Points lie a line more apart than they need: a power of two would crowd them into few sets of the cache.
std::int64_t spread(std::int64_t floats) {
  return floats + kLine;
}

/// The output pixels [images, height, width], cut into squares.
struct Squares {
  std::int64_t images, height, width, down, across;

  Squares(std::int64_t images, std::int64_t height, std::int64_t width)
      : images(images),
        height(height),
        width(width),
        down(ceil_div(height, kOut)),
        across(ceil_div(width, kOut)) {}
  std::int64_t count() const { return images * down * across; }

  struct Place {
    std::int64_t image, row, col;  // of its first output pixel
  };
  Place at(std::int64_t index) const {
    const std::int64_t in_image = index % (down * across);
    return {index / (down * across), in_image / across * kOut, in_image % across * kOut};
  }
};

/// Images of which squares are read or written, [images, height, width, channels].
struct Images {
  std::int64_t height, width, channels;

  /// The square of `size` pixels whose first one is (row, col), which may lie outside.
  WinogradPatch patch(std::int64_t row, std::int64_t col, int size) const {
    const auto inside = [size](std::int64_t at, std::int64_t extent) {
      return static_cast<int>(std::clamp<std::int64_t>(extent - at, 0, size));
    };
    return {.channels = channels,
            .row_pitch = width * channels,
            .first_row = static_cast<int>(std::max<std::int64_t>(0, -row)),
            .end_row = inside(row, height),
            .first_col = static_cast<int>(std::max<std::int64_t>(0, -col)),
            .end_col = inside(col, width)};
  }
  std::int64_t offset(std::int64_t image, std::int64_t row, std::int64_t col) const {
    return ((image * height + row) * width + col) * channels;
  }
};

/// Weights at the points, as `depth` x `cols` matrices in panels of kPanel columns.
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
      winograd().weight_to_points(taps + d * kTaps * kBlock, columns_ == Side::kInputs,
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

/// y = x * weight: forward, and backward to the input.
struct Filter {
  const float* x;
  Images in;
  std::int64_t padding;
  const WeightPoints& weight;
  const float *bias, *addend;  // or null
  float* y;
  Images out;
};

/// Squares that a thread transforms and multiplies together. Measured (1 MiB of L2 a core, 64 to 512
/// channels): 16 to 24 are quickest, 48 and more leave the cache.
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
      const Squares::Place at = squares.at(first + s);
      const std::int64_t row = at.row - f.padding, col = at.col - f.padding;
      winograd().input_to_points(f.in.patch(row, col, kIn), f.x + f.in.offset(at.image, row, col),
                                 {inputs + s * f.in.channels, in_pitch, kPanel});
    }
    for (std::int64_t point = 0; point < kPoints; ++point) {
      for (std::int64_t col = 0; col < f.out.channels; col += kPanel) {
        winograd().product({.a = inputs + point * in_pitch,
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
      const Squares::Place at = squares.at(first + s);
      const std::int64_t offset = f.out.offset(at.image, at.row, at.col);
      winograd().points_to_output(f.out.patch(at.row, at.col, kOut),
                                  {outputs + s * f.out.channels, out_pitch, kPanel}, f.bias,
                                  f.addend != nullptr ? f.addend + offset : nullptr, f.y + offset);
    }
  });
}

// Measured likewise: from 64 on, until both sides leave the cache.
constexpr std::int64_t kSquaresOfPass = 128;

/// The sums of a weight's gradient at the points: [channels, outputs] each.
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
    const std::int64_t padding = shape_.geometry.padding;
    for_each_piece(exec_, count, count * (shape_.channels + shape_.outputs) * kPoints, [&](std::int64_t s) {
      const Squares::Place at = squares_.at(first + s);
      const std::int64_t row = at.row - padding, col = at.col - padding;
      winograd().input_to_points(in_.patch(row, col, kIn), x + in_.offset(at.image, row, col),
                                 {inputs_.data() + s * kPanel, in_pitch_, of_piece_ * kPanel});
      winograd().output_gradient_to_points(out_.patch(at.row, at.col, kOut),
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
        winograd().product_of_columns({.a = inputs_.data() + point * in_pitch_ + row * of_piece_,
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
      winograd().points_to_weight(sums_.data() + (row + i) * shape_.outputs + col, pitch_,
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

bool takes_winograd(const ConvShape& s, DType dtype, MathMode math) {
  // Below this, transforms and half-filled squares cost what the products save.
  constexpr std::int64_t kFewestPixels = 4;
  return dtype == DType::kFloat32 && math == MathMode::kFp32 && s.kernel_height == 3 && s.kernel_width == 3 &&
         s.geometry.stride == 1 && s.geometry.groups == 1 && s.geometry.padding <= 2 &&
         s.channels % kBlock == 0 && s.outputs % kBlock == 0 && s.out_height >= kFewestPixels &&
         s.out_width >= kFewestPixels;
}

void winograd_conv_fwd(const KernelContext& exec, const Conv2dFwdArgs& args) {
  const ConvShape s = conv_shape(args.x.shape, args.weight.shape, args.y.shape, args.geometry);
  const WeightPoints weight(exec, args.weight.as<float>(), s, WeightPoints::Side::kOutputs);
  filter(exec, s.images,
         {.x = args.x.as<float>(),
          .in = {s.height, s.width, s.channels},
          .padding = s.geometry.padding,
          .weight = weight,
          .bias = args.bias.defined() ? args.bias.as<float>() : nullptr,
          .addend = nullptr,
          .y = args.y.as<float>(),
          .out = {s.out_height, s.out_width, s.outputs}});
}

void winograd_conv_bwd_data(const KernelContext& exec, const Conv2dBwdDataArgs& args) {
  const ConvShape s = conv_shape(args.dx.shape, args.weight.shape, args.dy.shape, args.geometry);
  const WeightPoints weight(exec, args.weight.as<float>(), s, WeightPoints::Side::kInputs);
  filter(exec, s.images,
         {.x = args.dy.as<float>(),
          .in = {s.out_height, s.out_width, s.outputs},
          .padding = 2 - s.geometry.padding,
          .weight = weight,
          .bias = nullptr,
          .addend = args.dx_add.defined() ? args.dx_add.as<float>() : nullptr,
          .y = args.dx.as<float>(),
          .out = {s.height, s.width, s.channels}});
}

void winograd_conv_bwd_weight(const KernelContext& exec, const Conv2dBwdWeightArgs& args) {
  const ConvShape s = conv_shape(args.x.shape, args.dweight.shape, args.dy.shape, args.geometry);
  const GradientPoints points(exec, s);
  points.sum(args.x.as<float>(), args.dy.as<float>());
  points.write_to(args.dweight.as<float>(), args.mode);
}

}  // namespace trireme::cpu
