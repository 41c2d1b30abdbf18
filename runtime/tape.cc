#include "runtime/tape.h"

#include <unordered_set>
#include <utility>

#include "runtime/base/error.h"

namespace trireme {

std::string_view name(Recompute recompute) {
  return recompute == Recompute::kNone ? "none" : "selective";
}

bool Gradients::has(ValueId id) const {
  return id != kNoValue && (slots_[static_cast<std::size_t>(id)].unit || has_codes(id) ||
                            slots_[static_cast<std::size_t>(id)].tensor.defined());
}

bool Gradients::has_codes(ValueId id) const {
  return id != kNoValue && slots_[static_cast<std::size_t>(id)].codes.inverse_scale.defined();
}

void Gradients::set_codes(ValueId id, Fp8Codes codes) {
  TRIREME_CHECK(!has(id), "value {} has a gradient, and cannot get one in fp8 codes as well", id);
  slots_.at(static_cast<std::size_t>(id)).codes = std::move(codes);
}

Fp8Codes Gradients::take_codes(ValueId id) {
  return std::exchange(slots_.at(static_cast<std::size_t>(id)).codes, {});
}

bool Gradients::is_unit(ValueId id) const {
  return id != kNoValue && slots_[static_cast<std::size_t>(id)].unit;
}

void Gradients::seed_unit(ValueId id) {
  if (id == kNoValue) return;
  Slot& slot = slots_.at(static_cast<std::size_t>(id));
  TRIREME_CHECK(
      !slot.unit && !slot.tensor.defined(),
      "the gradient of a loss is 1, and value {} has another one, too: a loss enters a sum of losses "
      "once, and nothing else",
      id);
  slot.unit = true;
}

Tensor Gradients::take(ValueId id) {
  auto& [tensor, unit, _] = slots_.at(static_cast<std::size_t>(id));
  TRIREME_CHECK(
      !unit,
      "the gradient of a loss is the number 1, for which no tensor exists: the backward of an op that "
      "makes a loss asks gradients.is_unit(y) before it takes a gradient, and multiplies what it adds by "
      "ctx.gradient_scale where that is defined (examples/extending.md, \"A loss\")");
  TRIREME_CHECK(tensor.defined() && !has_codes(id),
                "value {} has no gradient to take: a backward takes that of its own output, once", id);
  return std::exchange(tensor, Tensor());
}

void Gradients::add(Context& ctx, ValueId id, Tensor gradient) {
  if (id == kNoValue) return;
  auto& [slot, unit, codes] = slots_.at(static_cast<std::size_t>(id));
  TRIREME_CHECK(!unit, "the gradient of a loss is 1, and nothing can be added to that of value {}", id);
  TRIREME_CHECK(!has_codes(id), "nothing can be added to the fp8 codes of the gradient of value {}", id);
  if (!slot.defined()) {
    slot = gradient.detach();
    return;
  }
  TRIREME_CHECK(slot.shape() == gradient.shape(), "gradients of one value have shapes {} and {}",
                slot.shape().to_string(), gradient.shape().to_string());
  TRIREME_CHECK(slot.dtype() == gradient.dtype(), "gradients of one value have dtypes {} and {}",
                name(slot.dtype()), name(gradient.dtype()));
  Tensor sum = slot;
  if (slot.use_count() > 2) {  // `slot` and `sum` hold two; no other holder may see a change
    sum = gradient.unique() ? gradient : ctx.empty(slot.shape(), slot.dtype());
  }
  ctx.run(AddArgs{.a = slot, .b = gradient, .out = sum});
  slot = sum.detach();
}

std::shared_ptr<RebuiltTensor> Tape::saved_as(ValueId id) const {
  const auto found = rebuilt_.find(id);
  return found != rebuilt_.end() ? found->second : nullptr;
}

std::shared_ptr<ProductCollector> Tape::collector_of(ValueId id) const {
  const auto found = collectors_.find(id);
  return found != collectors_.end() ? found->second : nullptr;
}

Tensor Tape::watch(const Tensor& input) {
  return input.with_id(new_value());
}

namespace {

void run_backward(Node& node, Context& ctx, Gradients& gradients) {
  try {
    node.backward(ctx, gradients);
  } catch (const Error& error) {
    throw error.saying(fmt::format("backward of op '{}': {}", node.name(), error.what()));
  }
}

}  // namespace

std::vector<Tensor> Tape::backward(Context& ctx, std::vector<Seed> seeds,
                                   const std::vector<ValueId>& inputs) {
  Gradients gradients(static_cast<std::size_t>(num_values_));
  for (Seed& seed : seeds) {
    TRIREME_CHECK(seed.output >= 0 && seed.output < num_values_,
                  "backward from a value that this tape does not hold");
    if (seed.gradient.defined()) {
      gradients.add(ctx, seed.output, std::move(seed.gradient));
    } else {
      gradients.seed_unit(seed.output);
    }
  }
  seeds.clear();
  while (!nodes_.empty()) {
    const std::unique_ptr<Node> node = std::move(nodes_.back());
    nodes_.pop_back();
    if (gradients.has(node->output())) run_backward(*node, ctx, gradients);
  }
  std::vector<Tensor> result;
  for (const ValueId id : inputs) result.push_back(gradients.has(id) ? gradients.take(id) : Tensor());
  rebuilt_.clear();
  collectors_.clear();
  num_values_ = 0;
  return result;
}

std::int64_t Tape::saved_bytes() const {
  std::unordered_set<const void*> seen;
  std::int64_t bytes = 0;
  for (const auto& node : nodes_) {
    for (const Tensor& tensor : node->saved()) {
      if (seen.insert(tensor.address()).second) bytes += tensor.size_bytes();
    }
  }
  return bytes;
}

std::string Tape::to_string() const {
  std::string text;
  for (const auto& node : nodes_) {
    text += fmt::format("%{} = {}", node->output(), node->name());
    for (const Tensor& tensor : node->saved()) {
      text += fmt::format(" {}{}", name(tensor.dtype()), tensor.shape().to_string());
    }
    text += "\n";
  }
  return text;
}

}  // namespace trireme
