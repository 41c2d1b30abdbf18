// cuDNN's handle and the plans made with it, one per problem.
//
// [Note: engines of cuDNN] The first engine that cuDNN's heuristics propose within the limits of the problem
// is used. The heuristics depend only on the shape, the card and the library version. So all ranks and all
// runs of a job use the same engine and get the same bits. Choosing by measurement was rejected for that
// reason. Noise swaps two engines that take about the same time: between ranks, between runs, and between a
// run and its resumption elsewhere. Their sums differ in the last bits. A table of measured choices that
// travels with the job would be as exact. It would need a key and a file, and is worth them once a card shows
// that the heuristics lose.
//
// A plan that was built may still be refused when it runs. cuDNN refuses before it enqueues anything. The
// next proposal within the limits then replaces it for the rest of the run; after the last one, the native
// kernel runs.
//
// No plan is built while a step is recorded: see expect_no_capture().
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kernels/cuda/cudnn/cudnn_graph.h"
#include "kernels/cuda/cudnn/cudnn_handle.h"
#include "kernels/cuda/device/check.h"
#include "runtime/base/log.h"

namespace trireme::cuda {

class CudnnHandle {
 public:
  explicit CudnnHandle(cudaStream_t stream);
  ~CudnnHandle();
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;

  cudnnHandle_t get() const { return handle_; }
  cudaStream_t stream() const { return stream_; }

 private:
  const cudaStream_t stream_;
  cudnnHandle_t handle_ = nullptr;
};

/// Requirements on `Problem`: it is ordered, and has these functions.
///   forms()      number of graphs that compute it; the first form with a plan is used
///   graph(form)  the graph of a form
///   limits(form) the EngineLimits of a form
///   text()       a description that begins with the op's name
///   successor()  a description of the code that runs if cuDNN has no plan
template <class Problem>
class CudnnPlans {
 public:
  /// Returns true if a plan that has been built may be used.
  using Trial = std::function<bool(const Problem& problem, int form, const CudnnPlan& plan)>;

  explicit CudnnPlans(std::shared_ptr<CudnnHandle> handle, Trial trial = {})
      : handle_(std::move(handle)), trial_(std::move(trial)) {}

  cudnnHandle_t handle() const { return handle_->get(); }
  cudaStream_t stream() const { return handle_->stream(); }

  /// Null if cuDNN has no plan, which is logged once. See [Note: engines of cuDNN].
  const CudnnPlan* plan_for(const Problem& problem) {
    auto found = plans_.find(problem);
    if (found == plans_.end()) found = plans_.emplace(problem, build(problem)).first;
    return found->second.plan ? &*found->second.plan : nullptr;
  }

  /// Runs the problem's plan; after each refusal, the next plan that can be built. `run` is called with a
  /// plan and returns whether it ran. Returns false when no plan is left. Each refusal is logged once.
  template <class Run>
  bool run(const Problem& problem, const Run& run) {
    while (const CudnnPlan* plan = plan_for(problem)) {
      if (run(*plan)) return true;
      log_warning(fmt::format("cuda: cuDNN {} refused to run proposal {}.{} for {}; the next one runs",
                              cudnn_version(), plans_.at(problem).form, plan->place(), problem.text()));
      Choice next = build(problem, plans_.at(problem).form, plan->place() + 1);
      plans_.erase(problem);
      plans_.emplace(problem, std::move(next));
    }
    return false;
  }

 private:
  struct Choice {
    std::optional<CudnnPlan> plan;
    int form = 0;
  };

  // The first plan that can be built, starting at proposal `first` of `form`.
  Choice build(const Problem& problem, int form = 0, std::size_t first = 0) const {
    expect_no_capture(handle_->stream(), problem.text());
    std::string reason = first == 0 ? "no engine is proposed" : "none is left";
    for (; form < problem.forms(); ++form, first = 0) {
      EngineLimits limits = problem.limits(form);
      limits.first = first;
      try {
        while (auto plan = problem.graph(form).build(handle_->get(), limits)) {
          if (!trial_ || trial_(problem, form, *plan)) return {std::move(plan), form};
          limits.first = plan->place() + 1;
        }
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kUnsupported) throw;
        reason = error.what();
      }
    }
    log_warning(fmt::format("cuda: cuDNN {} has no fitting engine for {} ({}); {}", cudnn_version(),
                            problem.text(), reason, problem.successor()));
    return {};
  }

  const std::shared_ptr<CudnnHandle> handle_;
  const Trial trial_;
  std::map<Problem, Choice> plans_;  // destroyed before the handle
};

}  // namespace trireme::cuda
