#include "launcher/cluster/run_price.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "models/gpt.h"
#include "parallel/foresee/folded_plan.h"
#include "parallel/foresee/plan_simulate.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr double kActivationBytes = 2;

/// The time of two overlapping tasks: (a^4 + b^4)^(1/4), a smooth maximum.
double overlapped_s(double a, double b) {
  return std::sqrt(std::sqrt(a * a * a * a + b * b * b * b));
}

PrecisionMode mode_of(const std::string& precision) {
  return precision == "bf16-pure" ? PrecisionMode::kBf16
                                  : find_precision_mode(precision).value_or(PrecisionMode::kBf16);
}

double micro_batches_of(const TrainingRun& run) {
  return std::max(1.0, std::round(run.global_batch / (static_cast<double>(run.micro_batch) * run.data)));
}

/// Micro-batches that fill the pipeline.
double filling(const TrainingRun& run) {
  return std::max(run.pipeline, 2);
}

/// Layers are distributed equally. The first chunk also has the embedding, the last the head.
std::vector<int> equal_cut(const TrainingRun& run) {
  std::vector<int> cut;
  const int num_chunks = run.pipeline * run.chunks;
  for (int chunk = 1; chunk < num_chunks; ++chunk) {
    cut.push_back(1 + (run.layers * chunk + num_chunks - 1) / num_chunks);
  }
  return cut;
}

PlannedJob job_of(const TrainingRun& run, const ClusterFramework& framework, double micro_batches) {
  const GptConfig config{.layers = run.layers,
                         .hidden = run.hidden,
                         .heads = run.heads,
                         .vocab = run.vocab,
                         .seq_len = run.seq_len,
                         .tensor_chunks = run.tensor};
  PlannedJob job{.blocks = std::make_shared<const BlockList>(build_gpt(config)),
                 .options = {},
                 .sample = {.input = {run.seq_len}, .target = {run.seq_len}},
                 .num_ranks = run.ranks};
  job.options.micro_batch = run.micro_batch;
  job.options.global_batch = static_cast<std::int64_t>(micro_batches) * run.micro_batch * run.data;
  job.options.precision = Precision(mode_of(run.precision));
  job.options.reduction = Reduction::kFast;
  Layout& layout = job.options.layout;
  layout.tensor = run.tensor;
  layout.pipeline = run.pipeline;
  layout.chunks = run.chunks;
  if (run.chunks > 1) layout.schedule = PipelineSchedule::kInterleaved;
  layout.cut = equal_cut(run);
  layout.zero = static_cast<ZeroStage>(run.zero.value_or(0));
  layout.recompute_every = run.recompute.value_or(framework.recompute) ? 1 : 0;
  return job;
}

/// Prices calls as [Note: runs as jobs] says.
class CallTimes {
 public:
  CallTimes(const TrainingRun& run, const StepRecord& record, const Cluster& cluster)
      : run_(run),
        record_(record),
        cluster_(cluster),
        device_(cluster.device(run.device)),
        times_(cluster, device_) {
    const ClusterNetwork network(cluster, device_);
    for (const OpShape& op : record.ops) op_s_.push_back(times_.device_s(op));
    for (const ExchangeShape& exchange : record.exchanges) exchange_s_.push_back(exchange.seconds(network));
  }

  ActionTime of(ActionKind kind, const ActionCalls& calls) const {
    ActionTime time{.compute_ms = 1e3 * calls.mean(calls.ops, op_s_),
                    .exchange_ms = 1e3 * calls.mean(calls.exchanges, exchange_s_)};
    if (!computes(kind)) return time;
    double num_kernels = 0;
    bool is_layer = false;
    for (const auto& [op, count] : calls.ops) {
      num_kernels += static_cast<double>(count) / calls.count;
      if (!is_attention(op)) continue;
      is_layer = true;
      if (cluster_.framework.attention == AttentionKernel::kUnfused)
        time.compute_ms += 1e3 * unfused_s(op, kind);
    }
    if (is_layer) num_kernels = cluster_.framework.kernels_per_layer;
    double host_s = num_kernels * cluster_.host.launch_us * 1e-6;
    if (kind == ActionKind::kBackward) host_s *= cluster_.host.backward_factor;
    time.compute_ms = 1e3 * overlapped_s(1e-3 * time.compute_ms, host_s);
    return time;
  }

 private:
  bool is_attention(int op) const {
    const OpShape& shape = record_.ops[static_cast<std::size_t>(op)];
    return shape.cost.operations > 0 && shape.k == 0;
  }

  /// The additional time of attention in separate kernels. They compute the whole square of scores, not the
  /// causal half; backward keeps the probabilities, so it has four products instead of five.
  double unfused_s(int op, ActionKind kind) const {
    const OpShape& shape = record_.ops[static_cast<std::size_t>(op)];
    const bool is_backward = kind == ActionKind::kBackward;
    const double operations = 2 * shape.cost.operations * (is_backward ? 0.8 : 1.0);
    const double scores =
        static_cast<double>(run_.micro_batch) * run_.seq_len * run_.seq_len * run_.heads / run_.tensor;
    const double bytes =
        (is_backward ? 2 : 1) * kActivationBytes * cluster_.framework.softmax_passes * scores;
    return operations / (times_.peak(shape.cost.arithmetic, shape.dtype) * device_.attention_efficiency) +
           times_.memory_s(bytes) - op_s_[static_cast<std::size_t>(op)];
  }

  const TrainingRun& run_;
  const StepRecord& record_;
  const Cluster& cluster_;
  const ClusterDevice& device_;
  const OpTimes times_;
  std::vector<double> op_s_, exchange_s_;
};

}  // namespace

RunPrice::RunPrice(const TrainingRun& run, const ClusterFramework& framework)
    : run_(run),
      micro_batches_(micro_batches_of(run)),
      record_(job_of(run, framework, std::min(micro_batches_, 2 * filling(run))),
              PricedRanks::kFirstTensorPlace) {
  if (micro_batches_ > 2 * filling(run)) steps_.push_back(short_step(job_of(run, framework, filling(run))));
  steps_.push_back(short_step(job_of(run, framework, std::min(micro_batches_, 2 * filling(run)))));
}

const ActionCalls* RunPrice::calls_of(int stage, const Action& action) const {
  const auto& calls = record_.calls.at({stage, true});
  const auto found = calls.find({action.kind, action.unit});
  return found == calls.end() ? nullptr : &found->second;
}

RunPrice::ShortStep RunPrice::short_step(const PlannedJob& job) const {
  ShortStep step{.plan = fold_plan(job, 1), .parts = {}};
  step.micro_batches = static_cast<double>(job.options.global_batch) / (run_.micro_batch * run_.data);
  const bool gathers = job.options.layout.zero == ZeroStage::kParameters && run_.data > 1;
  for (std::size_t stage = 0; stage < step.plan.ranks.size(); ++stage) {
    std::set<std::tuple<Channel, int, int>> received;
    std::vector<Action> actions;
    bool continues = false;  // the last action takes in the next computation, unless that waits for a message
    for (Action action : step.plan.ranks[stage].actions) {
      if (is_receive(action.kind)) {
        received.insert({traits(action.kind).channel, action.unit, action.micro_batch});
      }
      if (is_send(action.kind) || is_receive(action.kind)) {
        actions.push_back(action);
        continues = false;
        continue;
      }
      const bool is_serial = computes(action.kind) || is_tensor_call(action.kind);
      if (!continues || !is_serial ||
          received.contains({traits(action.kind).takes_from, action.unit, action.micro_batch})) {
        action.peer = static_cast<int>(step.parts.size());
        actions.push_back(action);
        step.parts.emplace_back();
        continues = computes(action.kind) && !gathers;
      }
      const ActionCalls* calls = calls_of(static_cast<int>(stage), action);
      if (calls == nullptr) continue;
      auto& part = step.parts.back();  // in the order of the plan, so that sums are equal in every run
      const auto known = std::ranges::find(part, calls, [](const auto& entry) { return entry.first; });
      if (known != part.end())
        ++known->second;
      else
        part.emplace_back(calls, 1);
    }
    step.plan.ranks[stage].actions = std::move(actions);
  }
  return step;
}

double RunPrice::step_ms(const Cluster& cluster) const {
  const CallTimes call_times(run_, record_, cluster);
  std::map<const ActionCalls*, ActionTime> times;
  for (const auto& [place, by_action] : record_.calls) {
    for (const auto& [key, calls] : by_action) times[&calls] = call_times.of(key.first, calls);
  }
  std::vector<double> ends;
  for (const ShortStep& step : steps_) {
    std::vector<ActionTime> sums;
    for (const auto& parts : step.parts) {
      ActionTime& sum = sums.emplace_back(ActionTime{.compute_ms = 0, .exchange_ms = 0.0});
      for (const auto& [calls, count] : parts) {
        const ActionTime& time = times.at(calls);
        sum.compute_ms += count * time.compute_ms;
        *sum.exchange_ms += count * *time.exchange_ms;
      }
    }
    const ActionTimes all{.unit_names = {},
                          .of = [&](int stage, const Action& action) -> ActionTime {
                            if (is_send(action.kind) || is_receive(action.kind)) {
                              const ActionCalls* calls = calls_of(stage, action);
                              return calls == nullptr ? ActionTime{0.0, 0.0} : times.at(calls);
                            }
                            const ActionTime& sum = sums[static_cast<std::size_t>(action.peer)];
                            if (!computes(action.kind)) return sum;
                            return {.compute_ms = sum.compute_ms + *sum.exchange_ms, .exchange_ms = 0.0};
                          },
                          .overlap = cluster.host.overlap,
                          .labels = false};
    ends.push_back(simulate_plan(step.plan, all).end_ms());
  }
  const double rate =
      ends.size() == 1 ? 0.0 : (ends[1] - ends[0]) / (steps_[1].micro_batches - steps_[0].micro_batches);
  const double waits = (run_.pipeline - 1.0) / run_.chunks;
  return ends.back() + rate * (micro_batches_ - steps_.back().micro_batches) + cluster.host.step_ms +
         (micro_batches_ + waits) * cluster.host.micro_batch_ms;
}

}  // namespace trireme
