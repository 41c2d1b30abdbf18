#include "parallel/layout/quantized_group.h"

#include <algorithm>

#include "runtime/base/nf4.h"

namespace trireme {
namespace {

std::int64_t num_code_bytes(std::int64_t num_elems) {
  return (num_elems + 1) / 2;
}

std::int64_t num_scale_codes(std::int64_t num_elems) {
  return (num_elems + kNf4Block - 1) / kNf4Block;
}

template <class T>
std::vector<T> on_host(const Context& ctx, const Tensor& tensor) {
  std::vector<T> values(static_cast<std::size_t>(tensor.num_elems()));
  ctx.backend->copy_to_host(ctx.exec, values.data(), tensor);
  return values;
}

}  // namespace

QuantizedGroup::QuantizedGroup(const Context& ctx, const ParamGroup& layout) : layout_(layout) {
  static_assert(kNormBlock % kNf4Block == 0);  // slots start at blocks
  std::int64_t num_scales = 0;
  for (const ParamSlot& slot : layout.slots) {
    first_scales_.push_back(num_scales);
    num_scales += num_nf4_scales(slot.shape.num_elems());
  }
  codes_ = ctx.zeros({num_code_bytes(layout.num_elems)}, DType::kUInt8, MemoryCategory::kParameters);
  scale_codes_ = ctx.zeros({num_scale_codes(layout.num_elems)}, DType::kUInt8, MemoryCategory::kParameters);
  scales_ = ctx.zeros({num_scales}, DType::kFloat32, MemoryCategory::kParameters);
}

int QuantizedGroup::slot_from(std::int64_t offset) const {
  return static_cast<int>(std::ranges::find(layout_.slots, offset, &ParamSlot::offset) -
                          layout_.slots.begin());
}

Tensor QuantizedGroup::scales_of(int slot) const {
  return scales_.slice(first_scales_[static_cast<std::size_t>(slot)],
                       {num_nf4_scales(slot_at(slot).shape.num_elems())});
}

Tensor QuantizedGroup::value(const Context& ctx, int slot, DType dtype) const {
  const ParamSlot& of = slot_at(slot);
  const std::int64_t num_elems = of.shape.num_elems();
  const Tensor numbers = ctx.empty(of.shape, dtype);
  ctx.run(DequantizeNf4Args{
      .codes = codes_.slice(of.offset / 2, {num_code_bytes(num_elems)}),
      .scale_codes = scale_codes_.slice(of.offset / kNf4Block, {num_scale_codes(num_elems)}),
      .scales = scales_of(slot),
      .y = numbers});
  return numbers;
}

void QuantizedGroup::read(const Context& ctx, std::int64_t first, std::span<float> values) const {
  std::ranges::fill(values, 0.0f);
  const std::int64_t last = first + std::ssize(values);
  for (int s = 0; s < static_cast<int>(layout_.slots.size()); ++s) {
    const ParamSlot& slot = slot_at(s);
    const std::int64_t begin = std::max(first, slot.offset);
    const std::int64_t end = std::min(last, slot.offset + slot.shape.num_elems());
    if (end <= begin) continue;
    read_slot(ctx, s, begin - slot.offset,
              values.subspan(static_cast<std::size_t>(begin - first), static_cast<std::size_t>(end - begin)));
  }
}

// Copies only the codes of the elements, from a block of scales on.
void QuantizedGroup::read_slot(const Context& ctx, int slot, std::int64_t first,
                               std::span<float> values) const {
  constexpr std::int64_t kElems = kNf4Block * kNf4ScaleBlock;
  const std::int64_t begin = first / kElems * kElems, count = first + std::ssize(values) - begin;
  const std::int64_t offset = slot_at(slot).offset + begin;
  const auto codes = on_host<std::uint8_t>(ctx, codes_.slice(offset / 2, {num_code_bytes(count)}));
  const auto scale_codes =
      on_host<std::uint8_t>(ctx, scale_codes_.slice(offset / kNf4Block, {num_scale_codes(count)}));
  auto scales = on_host<float>(ctx, scales_of(slot));
  scales.erase(scales.begin() + 1, scales.begin() + 1 + begin / kElems);
  dequantize_nf4({.codes = codes, .scale_codes = scale_codes, .scales = scales}, first - begin, values);
}

void QuantizedGroup::write(const Context& ctx, int slot, std::span<const float> numbers,
                           Scales origin) const {
  const std::int64_t offset = slot_at(slot).offset, num_elems = std::ssize(numbers);
  const Tensor codes = codes_.slice(offset / 2, {num_code_bytes(num_elems)});
  const Tensor scale_codes = scale_codes_.slice(offset / kNf4Block, {num_scale_codes(num_elems)});
  std::vector<std::uint8_t> host_codes(static_cast<std::size_t>(codes.num_elems()));
  std::vector<std::uint8_t> host_scale_codes(static_cast<std::size_t>(scale_codes.num_elems()));
  std::vector<float> scales = on_host<float>(ctx, scales_of(slot));
  const Nf4Weight weight{.codes = host_codes, .scale_codes = host_scale_codes, .scales = scales};
  (origin == Scales::kKept ? requantize_nf4 : quantize_nf4)(numbers, weight, ctx.exec.num_threads);
  ctx.backend->copy_from_host(ctx.exec, codes, host_codes.data());
  ctx.backend->copy_from_host(ctx.exec, scale_codes, host_scale_codes.data());
  ctx.backend->copy_from_host(ctx.exec, scales_of(slot), scales.data());
}

}  // namespace trireme
