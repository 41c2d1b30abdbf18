// The stored form of a quantized parameter group: NF4 codes and their scales. See [Note: quantized groups] in
// model_layout.h and [Note: nf4] in runtime/base/nf4.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/layout/model_layout.h"
#include "runtime/context.h"

namespace trireme {

class QuantizedGroup {
 public:
  /// Allocates the codes, uninitialised. `layout` outlives this.
  QuantizedGroup(const Context& ctx, const ParamGroup& layout);

  /// The numbers of a slot in a new buffer of `dtype`.
  Tensor value(const Context& ctx, int slot, DType dtype) const;
  /// Copies elements [first, first + values.size()) of the group to host memory; gaps are 0. `first` is a
  /// multiple of kNf4Block. Waits for the device.
  void read(const Context& ctx, std::int64_t first, std::span<float> values) const;

  /// The source of a slot's scales.
  enum class Scales : std::uint8_t {
    kFromNumbers,  // quantizes
    kKept,         // scales() were restored: restores the codes of numbers that read() returned
  };
  /// Sets the codes of a slot from its numbers in host memory.
  void write(const Context& ctx, int slot, std::span<const float> numbers, Scales scales) const;

  /// The slot at an offset of the group.
  int slot_from(std::int64_t offset) const;
  /// [Note: nf4]: num_nf4_scales() of each slot, in their order.
  const Tensor& scales() const { return scales_; }
  const Tensor& codes() const { return codes_; }
  const Tensor& scale_codes() const { return scale_codes_; }

 private:
  const ParamSlot& slot_at(int slot) const { return layout_.slots[static_cast<std::size_t>(slot)]; }
  Tensor scales_of(int slot) const;
  /// Elements [first, first + values.size()) of a slot.
  void read_slot(const Context& ctx, int slot, std::int64_t first, std::span<float> values) const;

  const ParamGroup& layout_;
  std::vector<std::int64_t> first_scales_;  // by slot
  Tensor codes_;                            // [elements / 2] uint8
  Tensor scale_codes_;                      // [elements / kNf4Block] uint8
  Tensor scales_;
};

}  // namespace trireme
