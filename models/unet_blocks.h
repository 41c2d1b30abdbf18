// The blocks of a UNet.
//
// [Note: UNet stream] Blocks pass on more than the image. Activations are {x, time}, then the condition while
// a later block attends to it, then the skip connections: every tensor that a unit on the way up still joins
// to its input, the newest last. So skip connections cross stage boundaries and recompute like x does. The
// last unit passes on x only.
#pragma once

#include "models/unet_layers.h"

namespace trireme {

/// The tensors of a UNet's activations.
struct UnetStream {
  Tensor x;                   // [B, H, W, C]
  Tensor time;                // [B, time_width], after its SiLU; undefined behind the last unit
  Tensor condition;           // [B, L, condition_width], or undefined
  std::vector<Tensor> skips;  // the newest last

  UnetStream(const Activations& activations, bool has_condition);
  UnetStream() = default;
  Activations activations() const;
};

/// The first convolution, and the embeddings of time and class.
class UnetInput final : public UnetBlock {
 public:
  explicit UnetInput(const UnetConfig& config);
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  Tensor embed(Context& ctx, const Batch& batch) const;

  Layer conv_, time1_, time2_;
  ParamRef classes_;
  std::int64_t channels_, width_, condition_width_;
  UnetStyle style_;
};

/// A residual unit, with attention or without.
class UnetUnit final : public UnetBlock {
 public:
  enum class Skip : std::uint8_t {
    kNone,  // in the middle
    kPush,  // way down: the output becomes a skip connection
    kPop,   // way up: the input is joined with the newest skip connection
  };
  struct Config {
    std::string prefix;  // "down_blocks.1"
    std::int64_t index = 0;
    std::int64_t level = 0;
    std::int64_t inputs = 0, outputs = 0;  // channels; inputs with the skip connection
    Skip skip = Skip::kNone;
    bool attends = false;
    bool has_condition = false;     // the input has a condition
    bool passes_condition = false;  // a later block needs it
    bool passes_time = true;
  };
  UnetUnit(const Config& config, const UnetConfig& unet);
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;
  /// Units of two levels may have parameters of one shape, and work on images of different sizes.
  std::string variant() const override;

 private:
  Config config_;
  UnetResidual residual_;
  UnetAttention attention_;
  UnetTransformer transformer_;
  bool is_conditional_;
};

/// Halves or doubles the image.
class UnetResample final : public UnetBlock {
 public:
  enum class Direction : std::uint8_t { kDown, kUp };
  struct Config {
    std::string prefix;  // "down_blocks.1"
    std::int64_t level = 0;
    std::int64_t width = 0;
    Direction direction = Direction::kDown;
    bool has_condition = false;
  };
  UnetResample(const Config& config, UnetStyle style);
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;
  std::string variant() const override;

 private:
  Config config_;
  Layer conv_;
  ConvGeometry geometry_;
};

/// The last norm and convolution, and the loss.
class UnetOutput final : public UnetBlock {
 public:
  explicit UnetOutput(const UnetConfig& config);
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  Layer norm_, conv_;
  std::int64_t groups_;
  float epsilon_;
};

}  // namespace trireme
