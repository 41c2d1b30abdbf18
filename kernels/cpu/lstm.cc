// An LSTM: see [Note: LSTM] in kernels/backend_recurrent_ops.h, and [Note: recurrent products]. The gates and
// cells of a piece of units are computed while the products of their gates are in cache.
#include <cassert>
#include <cstring>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/matmul/recurrent_product.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {
namespace {

constexpr std::int64_t kGates = 4, kUnits = RecurrentProduct::kUnits;

struct LstmExtents {
  std::int64_t samples, steps, units;

  /// The first of `elems` elements a step.
  std::int64_t at(std::int64_t sample, std::int64_t step, std::int64_t elems) const {
    return (sample * steps + step) * elems;
  }
};

LstmExtents extents_of(ConstTensorView c) {
  return {c.shape[0], c.shape[1], c.shape[2]};
}

/// The cells of `sample` before `step`, from unit `first` on; null where they are 0.
template <class Args>
const float* c_before(const Args& args, std::int64_t sample, std::int64_t step, std::int64_t first) {
  const LstmExtents e = extents_of(args.c);
  if (step > 0) return args.c.template as<float>() + e.at(sample, step - 1, e.units) + first;
  return args.c0.defined() ? args.c0.template as<float>() + sample * e.units + first : nullptr;
}

// Elements [at, at + count) of each gate of a row, `units` apart in memory.
ConstLstmGates read_gates(ConstTensorView x, std::int64_t at, std::int64_t units, std::int64_t count,
                          float* buffer) {
  if (x.dtype == DType::kFloat32) return {x.as<float>() + at, units};
  for (std::int64_t g = 0; g < kGates; ++g) read(x, at + g * units, count, buffer + g * kUnits);
  return {buffer, kUnits};
}

LstmGates place_gates(TensorView y, std::int64_t at, std::int64_t units, float* buffer) {
  if (y.dtype == DType::kFloat32) return {y.as<float>() + at, units};
  return {buffer, kUnits};
}

void write_gates(TensorView y, std::int64_t at, std::int64_t units, std::int64_t count,
                 const LstmGates& gates) {
  for (std::int64_t g = 0; g < kGates; ++g) write(y, at + g * units, count, gates.data + g * gates.pitch);
}

/// Rows of a state, from element `at` of `data` on, `pitch` elements apart.
PackedOperand state_rows(ConstTensorView data, std::int64_t at, std::int64_t pitch, MathMode math) {
  PackedOperand state = packed_operand(data, math, /*along_k=*/true);
  state.data.data = static_cast<const char*>(data.data) + at * size_bytes(data.dtype);
  state.pitch = pitch;
  return state;
}

class LstmFwd {
 public:
  LstmFwd(const KernelContext& exec, const LstmFwdArgs& args)
      : args_(args),
        e_(extents_of(args.c)),
        product_(exec,
                 {.operand = packed_operand(args.w_hh, args.math, /*along_k=*/true),
                  .depth = e_.units,
                  .units = e_.units,
                  .groups = kGates},
                 e_.samples, args.h0.defined() ? e_.steps : e_.steps - 1),
        sums_(exec, product_.sums()),
        bias_floats_(exec, args.bias.dtype == DType::kFloat32 ? 0 : kGates * e_.units, 1),
        bias_(read(args.bias, 0, kGates * e_.units, bias_floats_.of(0))) {}

  void run(const KernelContext& exec) const {
    product_.for_each_step(
        exec, e_.steps, [&](const UnitPiece& piece) { start(piece); },
        [&](std::int64_t step, const UnitPiece& piece) { compute(step, piece); });
  }

 private:
  void start(const UnitPiece& piece) const {
    product_.pack_weight(piece);
    if (!args_.h0.defined()) return;
    product_.pack_state(0, state_rows(args_.h0, piece.first, e_.units, args_.math), piece.first, piece.count);
  }

  void compute(std::int64_t step, const UnitPiece& piece) const {
    const bool has_product = step > 0 || args_.h0.defined();
    float* const sums = sums_.mine();
    if (has_product) product_.multiply(step, piece, sums);
    for (std::int64_t b = 0; b < e_.samples; ++b) {
      compute_cells(b, step, piece, has_product ? sums + b * kGates * kUnits : nullptr);
    }
    if (step + 1 == e_.steps) return;
    const PackedOperand state =
        state_rows(args_.h, e_.at(0, step, e_.units) + piece.first, e_.steps * e_.units, args_.math);
    product_.pack_state(step + 1, state, piece.first, piece.count);
  }

  void compute_cells(std::int64_t b, std::int64_t step, const UnitPiece& piece, const float* product) const {
    float gates[kGates * kUnits], h_buffer[kUnits];
    const std::int64_t at = e_.at(b, step, e_.units) + piece.first, count = piece.count;
    const std::int64_t gates_at = e_.at(b, step, kGates * e_.units) + piece.first;
    float* const h = place(args_.h, at, h_buffer);
    const LstmGates activated = place_gates(args_.gates, gates_at, e_.units, gates);
    numerics().lstm->fwd({.x = read_gates(args_.x, gates_at, e_.units, count, gates),
                          .product = {product, kUnits},
                          .bias = {bias_ + piece.first, e_.units},
                          .c_before = c_before(args_, b, step, piece.first),
                          .gates = activated,
                          .c = args_.c.as<float>() + at,
                          .h = h,
                          .units = count});
    write_gates(args_.gates, gates_at, e_.units, count, activated);
    write(args_.h, at, count, h);
    if (step + 1 < e_.steps) return;
    write(args_.h_n, b * e_.units + piece.first, count, h);
    write(args_.c_n, b * e_.units + piece.first, count, args_.c.as<float>() + at);
  }

  const LstmFwdArgs& args_;
  const LstmExtents e_;
  const RecurrentProduct product_;
  const ThreadScratch sums_, bias_floats_;
  const float* const bias_;
};

// Step s of the product is step T - 1 - s of the recurrence. It begins with the gradients of the step after
// it. One more step computes dh0.
class LstmBwd {
 public:
  LstmBwd(const KernelContext& exec, const LstmBwdArgs& args)
      : args_(args),
        e_(extents_of(args.c)),
        product_(exec,
                 {.operand = packed_operand(args.w_hh, args.math, /*along_k=*/false),
                  .depth = kGates * e_.units,
                  .units = e_.units,
                  .groups = 1},
                 e_.samples, args.dh0.defined() ? e_.steps : e_.steps - 1),
        sums_(exec, product_.sums()),
        dc_(exec, args.dc0.defined() ? 0 : e_.samples * e_.units, 1) {}

  void run(const KernelContext& exec) const {
    product_.for_each_step(
        exec, args_.dh0.defined() ? e_.steps + 1 : e_.steps, [&](const UnitPiece& piece) { start(piece); },
        [&](std::int64_t step, const UnitPiece& piece) { compute(step, piece); });
  }

 private:
  /// The gradient of the cells, from the last step to the first.
  float* dc(std::int64_t b) const {
    return (args_.dc0.defined() ? args_.dc0.as<float>() : dc_.of(0)) + b * e_.units;
  }

  void start(const UnitPiece& piece) const {
    product_.pack_weight(piece);
    for (std::int64_t b = 0; b < e_.samples; ++b) std::fill_n(dc(b) + piece.first, piece.count, 0.0f);
  }

  void compute(std::int64_t reversed, const UnitPiece& piece) const {
    const std::int64_t step = e_.steps - 1 - reversed;
    float* const sums = sums_.mine();
    if (reversed > 0) product_.multiply(reversed, piece, sums);
    if (step < 0) {
      for (std::int64_t b = 0; b < e_.samples; ++b) {
        write(args_.dh0, b * e_.units + piece.first, piece.count, sums + b * kUnits);
      }
      return;
    }
    for (std::int64_t b = 0; b < e_.samples; ++b) {
      compute_cells(b, step, piece, reversed > 0 ? sums + b * kUnits : nullptr);
    }
    const std::int64_t row = kGates * e_.units;
    for (std::int64_t first = piece.first; first < row; first += e_.units) {
      const PackedOperand state =
          state_rows(args_.dgates, e_.at(0, step, row) + first, e_.steps * row, args_.math);
      product_.pack_state(reversed + 1, state, first, piece.count);
    }
  }

  void compute_cells(std::int64_t b, std::int64_t step, const UnitPiece& piece, const float* dh_next) const {
    float gates[kGates * kUnits], dh_buffer[kUnits];
    const std::int64_t at = e_.at(b, step, e_.units) + piece.first, count = piece.count;
    const std::int64_t gates_at = e_.at(b, step, kGates * e_.units) + piece.first;
    const LstmGates dgates = place_gates(args_.dgates, gates_at, e_.units, gates);
    numerics().lstm->bwd({.gates = read_gates(args_.gates, gates_at, e_.units, count, gates),
                          .c = args_.c.as<float>() + at,
                          .c_before = c_before(args_, b, step, piece.first),
                          .dh = read(args_.dh, at, count, dh_buffer),
                          .dh_next = dh_next,
                          .dc = dc(b) + piece.first,
                          .dgates = dgates,
                          .units = count});
    write_gates(args_.dgates, gates_at, e_.units, count, dgates);
  }

  const LstmBwdArgs& args_;
  const LstmExtents e_;
  const RecurrentProduct product_;
  const ThreadScratch sums_, dc_;
};

}  // namespace

void run_op(const KernelContext& exec, const LstmFwdArgs& args) {
  check_one_float_type("lstm_fwd", {args.x, args.w_hh, args.bias, args.h0, args.h, args.gates, args.h_n});
  check_fp32("lstm_fwd", {args.c0, args.c, args.c_n});
  assert(args.gates.num_elems() == kGates * args.c.num_elems());
  if (args.c.num_elems() > 0) LstmFwd(exec, args).run(exec);
}

void run_op(const KernelContext& exec, const LstmBwdArgs& args) {
  check_one_float_type("lstm_bwd", {args.gates, args.dh, args.w_hh, args.dgates, args.dh0});
  check_fp32("lstm_bwd", {args.c, args.c0, args.dc0});
  assert(args.gates.num_elems() == kGates * args.c.num_elems());
  if (args.c.num_elems() > 0) LstmBwd(exec, args).run(exec);
}

void run_op(const KernelContext& exec, const ShiftStepsArgs& args) {
  check_one_float_type("shift_steps", {args.x, args.first, args.y});
  const std::int64_t steps = args.x.shape[1];
  if (args.x.num_elems() == 0) return;
  const auto row = static_cast<std::size_t>(args.x.shape[2] * size_bytes(args.x.dtype));
  for_each_piece(exec, args.x.shape[0], args.x.num_elems(), [&](std::int64_t b) {
    const std::size_t at = static_cast<std::size_t>(b * steps) * row;
    char* const y = static_cast<char*>(args.y.data) + at;
    if (args.first.defined()) {
      std::memcpy(y, static_cast<const char*>(args.first.data) + static_cast<std::size_t>(b) * row, row);
    } else {
      std::memset(y, 0, row);
    }
    std::memcpy(y + row, static_cast<const char*>(args.x.data) + at,
                static_cast<std::size_t>(steps - 1) * row);
  });
}

}  // namespace trireme::cpu
