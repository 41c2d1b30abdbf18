#include "parallel/foresee/random_operands.h"

#include <algorithm>
#include <vector>

namespace trireme {
namespace {

constexpr std::int64_t kElems = 1 << 16;  // of a pattern

}  // namespace

RandomOperands::RandomOperands(const Context& ctx) : ctx_(ctx) {
  std::vector<float> values(kElems);
  std::uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;  // the generator of Numerical Recipes
    value = static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
  }
  const Tensor numbers = ctx.from_host(values.data(), {kElems}, DType::kFloat32);
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    Tensor& pattern = patterns_[dtype] = ctx.empty({kElems}, dtype);
    if (dtype == DType::kFloat32)
      ctx.backend->copy(ctx.exec, pattern, numbers);
    else
      ctx.run(CastArgs{.x = numbers, .y = pattern});
  }
  ctx.backend->synchronize(ctx.exec);  // before `numbers` is freed
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
