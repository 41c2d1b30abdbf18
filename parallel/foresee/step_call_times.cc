#include "parallel/foresee/step_call_times.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>

#include "parallel/comm/local.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

struct Call {
  OpShape shape;
  double us = 0;
};

/// The stream of a backend that times its calls.
struct TimedStream {
  std::shared_ptr<void> own;  // of the device
  std::vector<Call> calls;    // of this step
  Clock::time_point last;     // end of the previous call

  void end(const OpShape& shape) {
    calls.push_back({.shape = shape, .us = us_since(last)});
    last = Clock::now();
  }
};

TimedStream& timed_stream(const KernelContext& exec) {
  return *static_cast<TimedStream*>(exec.stream);
}

KernelContext on_own_stream(const KernelContext& exec) {
  KernelContext own = exec;
  own.stream = timed_stream(exec).own.get();
  return own;
}

template <class Args>
void run_timed(const KernelContext& exec, const Args& args) {
  backend_for(exec.device.type).run(on_own_stream(exec), args);
  timed_stream(exec).end(shape_of(args));
}

void end_bytes(const KernelContext& exec, std::string_view op, DType dtype, std::int64_t bytes) {
  timed_stream(exec).end({.op = op, .dtype = dtype, .cost = {.bytes = static_cast<double>(bytes)}});
}

Backend timed_backend(DeviceType type) {
  Backend backend = backend_for(type);
  TRIREME_CHECK(!backend.is_asynchronous(), "the calls of a step on {} return before they have ended",
                backend.name);
  backend.make_stream = [](Device device, std::shared_ptr<Allocator> allocator) -> std::shared_ptr<void> {
    auto stream = std::make_shared<TimedStream>();
    const Backend& own = backend_for(device.type);
    if (own.make_stream != nullptr) stream->own = own.make_stream(device, std::move(allocator));
    return stream;
  };
  backend.fill_zero = [](const KernelContext& exec, TensorView dst) {
    backend_for(exec.device.type).fill_zero(on_own_stream(exec), dst);
    end_bytes(exec, "fill_zero", dst.dtype, bytes_of(dst));
  };
  backend.copy = [](const KernelContext& exec, TensorView dst, ConstTensorView src) {
    backend_for(exec.device.type).copy(on_own_stream(exec), dst, src);
    end_bytes(exec, "copy", dst.dtype, bytes_of(dst) + bytes_of(src));
  };
  backend.ops =
      OpTable<AllOps>::filled_by([]<class Args>(Op<Args>) -> Kernel<Args> { return run_timed<Args>; });
  return backend;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Merges equal calls, with their mean time.
std::vector<TimedCall> grouped(const std::vector<std::vector<Call>>& steps) {
  struct Sum {
    TimedCall call;
    double us = 0;
    int count = 0;
  };
  std::map<std::tuple<std::string, double, double, double>, Sum> sums;
  for (std::size_t i = 0; i < steps[0].size(); ++i) {
    std::vector<double> times;
    for (const std::vector<Call>& step : steps) {
      TRIREME_CHECK(step.size() == steps[0].size(), "steps of {} and {} calls: they must be equal",
                    step.size(), steps[0].size());
      times.push_back(step[i].us);
    }
    const OpShape& shape = steps[0][i].shape;
    const std::string kernel = kernel_of(shape);
    Sum& sum = sums[{kernel, shape.cost.bytes, shape.cost.operations, shape.inner}];
    sum.call = {.kernel = kernel, .cost = shape.cost, .inner = shape.inner};
    sum.us += median(times);
    ++sum.count;
  }
  std::vector<TimedCall> calls;
  for (auto& [key, sum] : sums) {
    sum.call.us = sum.us / sum.count;
    calls.push_back(std::move(sum.call));
  }
  return calls;
}

}  // namespace

std::vector<TimedCall> time_calls_of_step(PlannedJob job, const BatchSource& source,
                                          const StepCallTimesOptions& options) {
  const Backend backend = timed_backend(options.device.type);
  job.options.device = options.device;
  job.options.threads = options.threads;
  job.options.backend = &backend;
  job.options.sample = job.sample;
  Engine engine(job.blocks, LocalWorld(1).communicator(0), job.options);
  auto& stream = *static_cast<TimedStream*>(engine.context().exec.stream);
  std::vector<std::vector<Call>> steps;
  double spent_us = 0;
  const std::int64_t targets = job.options.global_batch * job.sample.target.num_elems();
  for (int step = -2; step < options.least_steps || spent_us < 1e6 * options.seconds; ++step) {
    stream.calls.clear();
    const Clock::time_point start = stream.last = Clock::now();
    engine.step(source, targets, 1e-4);
    if (step < 0) continue;
    spent_us += us_since(start);
    steps.push_back(stream.calls);
  }
  return grouped(steps);
}

}  // namespace trireme
