#include "parallel/foresee/op_calls.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "runtime/base/error.h"

namespace trireme {
namespace {

// Operations of a backend that are not in its table, as structs of arguments like the ops' structs.
struct FillZero {
  static constexpr const char* kName = "fill_zero";
  TensorView dst;
};
void visit_views(FillZero& args, auto visit) {
  visit(args.dst, ViewUse::kWrite);
}
void run(const Context& ctx, const FillZero& args) {
  ctx.backend->fill_zero(ctx.exec, args.dst);
}

struct Copy {
  static constexpr const char* kName = "copy";
  ConstTensorView src;
  TensorView dst;
};
void visit_views(Copy& args, auto visit) {
  visit(args.src, ViewUse::kRead);
  visit(args.dst, ViewUse::kWrite);
}
void run(const Context& ctx, const Copy& args) {
  ctx.backend->copy(ctx.exec, args.dst, args.src);
}

void run(const Context& ctx, const auto& args) {
  ctx.run(args);
}

// "[8192,768]".
std::string describe(const Shape& shape) {
  std::string text = shape.to_string();
  std::erase(text, ' ');
  return text;
}

// "bf16 2 x [8192,768]", "bf16 NT [8192,768] [2304,768]".
std::string describe_operands(auto args) {
  std::vector<std::pair<std::string, int>> shapes;  // consecutive equal shapes, with their count
  visit_views(args, [&shapes](const auto& view, ViewUse use) {
    if (!view.defined() || (!shapes.empty() && (use == ViewUse::kWrite || view.shape.rank() < 2))) return;
    const std::string shape = describe(view.shape);
    if (!shapes.empty() && shapes.back().first == shape)
      ++shapes.back().second;
    else
      shapes.emplace_back(shape, 1);
  });
  std::string text(name(first_operand(args).dtype));
  if constexpr (requires { args.transpose_a; }) {
    const auto letter = [](Transpose transpose) { return transpose == Transpose::kYes ? 'T' : 'N'; };
    text += fmt::format(" {}{}", letter(args.transpose_a), letter(args.transpose_b));
  }
  for (const auto& [shape, count] : shapes) {
    text += count == 1 ? " " + shape : fmt::format(" {} x {}", count, shape);
  }
  return text;
}

std::size_t misalignment(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % Allocator::kAlignment;
}

template <class Args>
std::string describe_problem(Args args) {
  std::string text = fmt::format("{} {}", Args::kName, describe_operands(args));
  visit_views(args, [&text](const auto& view, ViewUse) {
    text += view.defined()
                ? fmt::format(" {} {} + {}", name(view.dtype), describe(view.shape), misalignment(view.data))
                : " -";
  });
  if constexpr (requires { args.math; }) text += fmt::format(" math {}", static_cast<int>(args.math));
  if constexpr (requires { args.mode; }) text += fmt::format(" mode {}", static_cast<int>(args.mode));
  if constexpr (requires { args.activation; }) {
    text += fmt::format(" activation {}", static_cast<int>(args.activation));
  }
  if constexpr (requires { args.groups; }) text += fmt::format(" groups {}", args.groups);
  if constexpr (requires { args.geometry; }) {
    const ConvGeometry& geometry = args.geometry;
    text += fmt::format(" {} {} {}", geometry.stride, geometry.padding, geometry.groups);
    if (geometry.end_padding() != geometry.padding) text += fmt::format(" end {}", geometry.end_padding());
  }
  return text;
}

/// The rows of the table that a call's integers index; 0: they index none.
std::int64_t num_ids_of(const auto& args) {
  if constexpr (requires { args.table; }) return args.table.shape[0];
  if constexpr (requires { args.dtable; }) return args.dtable.defined() ? args.dtable.shape[0] : 0;
  return 0;
}

/// See OpCall::bind_unfused. The bias is added by a pass of equal traffic: no kernel adds one alone.
void run_unfused(const Context& ctx, const MatmulArgs& args) {
  MatmulArgs product = args;
  product.bias = product.residual = {};
  product.pre_activation = {};
  product.activation = Activation::kNone;
  ctx.run(product);
  if (args.bias.defined()) ctx.run(AddArgs{.a = args.d, .b = args.d, .out = args.d});
  if (args.activation != Activation::kNone) {
    const TensorView x = args.pre_activation.defined() ? args.pre_activation : args.d;
    ctx.run(ActivationFwdArgs{.x = x, .y = args.d, .activation = args.activation});
  }
  if (args.residual.defined()) ctx.run(AddArgs{.a = args.d, .b = args.residual, .out = args.d});
}

bool has_epilogue(const MatmulArgs& args) {
  return args.bias.defined() || args.residual.defined() || args.activation != Activation::kNone;
}

/// The call that `run_bound` makes of the arguments with their new memory.
BoundCall bind(const Context& ctx, auto args, const RandomOperands& operands, auto run_bound) {
  std::map<const void*, std::int64_t> bytes;  // size of each recorded buffer, by address
  visit_views(args, [&](const auto& view, ViewUse) {
    if (view.defined()) bytes[view.data] = std::max(bytes[view.data], bytes_of(view));
  });
  auto memory = std::make_shared<std::map<const void*, Tensor>>();
  for (const auto& [where, size] : bytes) {
    const auto extra = static_cast<std::int64_t>(misalignment(where));
    memory->emplace(where, ctx.empty({std::max<std::int64_t>(size, 1) + extra}, DType::kUInt8));
  }
  const std::int64_t num_ids = num_ids_of(args);
  visit_views(args, [&](auto& view, ViewUse) {
    if (!view.defined()) return;
    const TensorView whole = memory->at(view.data);
    void* const data = static_cast<std::byte*>(whole.data) + misalignment(view.data);
    view.data = data;
    if (view.dtype == DType::kInt32 && num_ids > 0)
      operands.fill_ids({data, view.dtype, view.shape}, num_ids);
    else
      operands.fill({data, view.dtype, view.shape});
  });
  return [&ctx, args, memory, run_bound] { run_bound(ctx, args); };
}

// The meta device has no streams, so `stream` points to the list of calls.
using Recorder = std::vector<OpCall>;

template <class Args>
void record(const KernelContext& exec, const Args& args) {
  OpCall call{.op = Args::kName,
              .operands = describe_operands(args),
              .cost = cost_of(args),
              .shape = shape_of(args),
              .problem = describe_problem(args)};
  call.bind = [args](const Context& ctx, const RandomOperands& operands) {
    return bind(ctx, args, operands, [](const Context& on, const Args& bound) { run(on, bound); });
  };
  if constexpr (std::is_same_v<Args, MatmulArgs>) {
    if (has_epilogue(args)) {
      call.bind_unfused = [args](const Context& ctx, const RandomOperands& operands) {
        return bind(ctx, args, operands, run_unfused);
      };
    }
  }
  static_cast<Recorder*>(exec.stream)->push_back(std::move(call));
}

Backend recording_backend() {
  Backend backend = meta_backend();
  backend.make_stream = [](Device, std::shared_ptr<Allocator>) -> std::shared_ptr<void> {
    return std::make_shared<Recorder>();
  };
  backend.fill_zero = [](const KernelContext& exec, TensorView dst) { record(exec, FillZero{dst}); };
  backend.copy = [](const KernelContext& exec, TensorView dst, ConstTensorView src) {
    record(exec, Copy{src, dst});
  };
  backend.ops = OpTable<AllOps>::filled_by([]<class Args>(Op<Args>) -> Kernel<Args> { return record<Args>; });
  return backend;
}

}  // namespace

StepCalls record_step(const PlannedJob& job, int rank) {
  const Backend backend = recording_backend();
  PlannedJob recorded = job;
  recorded.options.backend = &backend;
  const std::unique_ptr<Engine> engine = engine_on_meta(recorded, rank);
  auto& calls = *static_cast<Recorder*>(engine->context().exec.stream);
  calls.clear();  // calls made while the engine was created
  std::size_t num_known = 0;
  const std::vector<Action>& actions =
      engine->plan().ranks[static_cast<std::size_t>(engine->communicator().rank())].actions;
  engine->observe_actions([&](std::size_t index) {
    for (; num_known < calls.size(); ++num_known) {
      calls[num_known].unit = actions[index].unit;
      calls[num_known].spent = traits(actions[index].kind).spent;
    }
  });
  engine->step(batches_without_data(job.sample), 1, 0.0);
  for (; num_known < calls.size(); ++num_known) calls[num_known].spent = TimeSpent::kExchange;
  StepCalls step{.calls = std::move(calls), .unit_names = {}};
  for (const auto& block : engine->blocks()) step.unit_names.push_back(block->name());
  return step;
}

}  // namespace trireme
