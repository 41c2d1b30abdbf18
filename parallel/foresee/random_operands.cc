#include "parallel/foresee/random_operands.h"

#include <algorithm>
#include <vector>

namespace trireme {
namespace {

constexpr std::int64_t kElems = 1 << 16;  // of a pattern
// Of an fp8 code: without the exponents of infinities and NaN, in e4m3 and in e5m2.
constexpr std::uint32_t kFiniteCode = 0xf7;

/// The generator of Numerical Recipes: the upper 24 of 32 bits.
std::uint32_t next_random(std::uint32_t& state) {
  state = state * 1664525u + 1013904223u;
  return state >> 8;
}

}  // namespace

RandomOperands::RandomOperands(const Context& ctx) : ctx_(ctx) {
  std::vector<float> values(kElems);
  std::vector<std::uint8_t> codes(kElems);
  std::uint32_t state = 1;
  for (float& value : values) value = static_cast<float>(next_random(state)) * 0x1p-23f - 1.0f;
  for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(next_random(state) >> 16 & kFiniteCode);
  const Tensor numbers = ctx.from_host(values.data(), {kElems}, DType::kFloat32);
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    Tensor& pattern = patterns_[dtype] = ctx.empty({kElems}, dtype);
    if (dtype == DType::kFloat32)
      ctx.backend->copy(ctx.exec, pattern, numbers);
    else
      ctx.run(CastArgs{.x = numbers, .y = pattern});
  }
  for (const DType dtype : {DType::kE4m3, DType::kE5m2}) {
    patterns_[dtype] = ctx.from_host(codes.data(), {kElems}, dtype);
  }
  ctx.backend->synchronize(ctx.exec);  // before `numbers` is freed
}

void RandomOperands::fill_ids(TensorView memory, std::int64_t num_ids) const {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(memory.num_elems()));
  std::uint32_t state = 1;
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(next_random(state) % num_ids);
  ctx_.backend->copy_from_host(ctx_.exec, memory, ids.data());
  ctx_.backend->synchronize(ctx_.exec);  // before `ids` is freed
}

void RandomOperands::fill(TensorView memory) const {
  const auto found = patterns_.find(memory.dtype);
  if (found == patterns_.end()) return ctx_.backend->fill_zero(ctx_.exec, memory);
  const std::int64_t num_elems = memory.num_elems(), elem_bytes = size_bytes(memory.dtype);
  const TensorView pattern = found->second;
  for (std::int64_t done = 0; done < num_elems;) {  // each copy doubles the filled part
    const std::int64_t more = std::min(num_elems - done, std::max(done, kElems));
    const ConstTensorView src{done == 0 ? pattern.data : memory.data, memory.dtype, {more}};
    const TensorView dst{static_cast<std::byte*>(memory.data) + done * elem_bytes, memory.dtype, {more}};
    ctx_.backend->copy(ctx_.exec, dst, src);
    done += more;
  }
}

}  // namespace trireme
