#include "parallel/foresee/step_price.h"

#include <algorithm>

#include "parallel/cluster/exchange_time.h"
#include "parallel/comm/recording.h"
#include "parallel/foresee/block_times.h"
#include "parallel/foresee/op_time.h"
#include "parallel/foresee/short_step.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::int64_t kMostMicroBatches = 8;

/// Stands in for the stream of the meta device, which has none: the sum of the seconds of enqueued calls.
struct PriceStream {
  const OpTimes* times = nullptr;  // null while the engine is created
  double seconds = 0;
};

template <class Args>
void add_time(const KernelContext& exec, const Args& args) {
  auto& stream = *static_cast<PriceStream*>(exec.stream);
  if (stream.times != nullptr) stream.seconds += stream.times->seconds(shape_of(args));
}

void add_bytes(const KernelContext& exec, std::string_view op, DType dtype, std::int64_t bytes) {
  auto& stream = *static_cast<PriceStream*>(exec.stream);
  if (stream.times == nullptr) return;
  stream.seconds +=
      stream.times->seconds({.op = op, .dtype = dtype, .cost = {.bytes = static_cast<double>(bytes)}});
}

Backend pricing_backend() {
  Backend backend = meta_backend();
  backend.make_stream = [](Device, std::shared_ptr<Allocator>) -> std::shared_ptr<void> {
    return std::make_shared<PriceStream>();
  };
  backend.fill_zero = [](const KernelContext& exec, TensorView dst) {
    add_bytes(exec, "fill_zero", dst.dtype, bytes_of(dst));
  };
  backend.copy = [](const KernelContext& exec, TensorView dst, ConstTensorView src) {
    add_bytes(exec, "copy", dst.dtype, bytes_of(dst) + bytes_of(src));
  };
  backend.ops =
      OpTable<AllOps>::filled_by([]<class Args>(Op<Args>) -> Kernel<Args> { return add_time<Args>; });
  return backend;
}

/// A communicator of the recorded rank, and the arrangement of its ranks.
struct RecordedGroup {
  const RecordingCommunicator* comm;
  RankGroup ranks;
  bool is_tensor_axis;
  std::size_t num_known = 0;  // calls already counted
};

std::vector<RecordedGroup> groups_of(const MeshGroups& groups) {
  const int tensor = groups.mesh.size(Axis::kTensor), data = groups.mesh.size(Axis::kData);
  std::vector<RecordedGroup> found;
  for (const Communicator* comm : groups.all()) {
    int stride = 1;
    if (comm == groups.along(Axis::kPipeline).get() && comm != groups.world.get()) stride = tensor * data;
    if (comm == groups.along(Axis::kData).get() || comm == groups.in_host.get()) stride = tensor;
    if (comm == groups.over_hosts.get()) stride = tensor * groups.in_host->size();
    const auto& recording = dynamic_cast<const RecordingCommunicator&>(*comm);
    found.push_back({.comm = &recording,
                     .ranks = {.size = comm->size(), .stride = stride},
                     .is_tensor_axis = comm == groups.along(Axis::kTensor).get(),
                     .num_known = recording.calls().size()});
  }
  return found;
}

double seconds_of(const RecordedCall& call, const RecordedGroup& group, const ClusterNetwork& network) {
  const auto bytes = static_cast<double>(call.bytes);
  const double size = group.ranks.size;
  switch (call.kind) {
    case CallKind::kAllReduce:
      return network.all_reduce_s(bytes, group.ranks);
    case CallKind::kSend:
      return network.message_s(bytes, std::abs(call.peer - group.comm->rank()) * group.ranks.stride);
    case CallKind::kBroadcast:  // all of it passes every link
      return size < 2 ? 0 : network.gather_s(bytes * size / (size - 1), group.ranks);
    case CallKind::kRecv:
      return 0;  // counted by the sender
    case CallKind::kReduceScatter:
    case CallKind::kAllGather:
    case CallKind::kAllToAll:
    case CallKind::kBarrier:
    case CallKind::kAllGatherStrings:
    case CallKind::kAllGatherValues:
    case CallKind::kSplit:
      break;
  }
  return network.gather_s(bytes, group.ranks);
}

/// The job with the fewest micro-batches that show everything a step does.
PlannedJob shortened(const PlannedJob& job, PricedRanks ranks) {
  const Layout& axes = job.options.layout;
  const std::int64_t stages = axes.pipeline;
  // With fast sums the pipeline fills and drains once, so the mean over few micro-batches would exceed that
  // over many.
  if (ranks == PricedRanks::kAll || job.options.reduction == Reduction::kFast)
    return short_step(job, std::max(kMostMicroBatches, 2 * stages), Shortened::kAsWhole);
  return short_step(job, axes.schedule == PipelineSchedule::kInterleaved ? stages : 1, Shortened::kNoLonger);
}

}  // namespace

/// Plays a step of one rank and adds the times of its actions.
class PriceRecorder {
 public:
  PriceRecorder(const PlannedJob& job, const OpTimes& times, const ClusterNetwork& network)
      : job_(job), times_(times), network_(network) {}

  /// Returns the job's cut into stages.
  StageMap record(int rank, StepPrice::Means& means) const {
    const std::unique_ptr<Engine> engine = engine_on_meta(job_, rank);
    auto& stream = *static_cast<PriceStream*>(engine->context().exec.stream);
    stream.times = &times_;
    std::vector<RecordedGroup> groups = groups_of(engine->groups());
    const std::vector<Action>& actions = engine->plan().ranks[static_cast<std::size_t>(rank)].actions;
    // A block communicates over the tensor axis while it runs. The plan has separate actions for this after
    // the block; the first of them is given the time of all.
    double within_block_s = 0;
    engine->observe_actions([&](std::size_t index) {
      const Action& action = actions[index];
      StepPrice::Mean& mean = means[{action.kind, action.unit}];
      mean.compute_s += std::exchange(stream.seconds, 0);
      if (is_tensor_call(action.kind)) mean.exchange_s += std::exchange(within_block_s, 0);
      for (RecordedGroup& group : groups) {
        const bool is_within_block = group.is_tensor_axis && computes(action.kind);
        const std::vector<RecordedCall>& calls = group.comm->calls();
        for (; group.num_known < calls.size(); ++group.num_known) {
          const double seconds = seconds_of(calls[group.num_known], group, network_);
          (is_within_block ? within_block_s : mean.exchange_s) += seconds;
        }
      }
      ++mean.count;
    });
    engine->step(batches_without_data(job_.sample), 1, 0.0);
    TRIREME_CHECK(within_block_s == 0,
                  "a block of rank {} exchanges over the tensor axis, and no action says so", rank);
    // The step's records, after its last action.
    means[{actions.back().kind, actions.back().unit}].compute_s += std::exchange(stream.seconds, 0);
    return engine->plan().stages;
  }

 private:
  const PlannedJob& job_;
  const OpTimes& times_;
  const ClusterNetwork& network_;
};

/// Stages that do the same work on other units.
class TwinStages {
 public:
  TwinStages(const PlannedJob& job, StageMap stages)
      : kinds_(kinds_of(*job.blocks, job.options.rules)), stages_(std::move(stages)) {}

  /// The first twin of a stage; `stage` itself if it has none.
  int first_twin(int stage) const {
    int first = 0;
    while (kinds_in(first) != kinds_in(stage)) ++first;
    return first;
  }

  /// The times of stage `from`, moved to its twin `to`.
  StepPrice::Means moved(const StepPrice::Means& times, int from, int to) const {
    StepPrice::Means result;
    for (const auto& [key, mean] : times) {
      const auto& [kind, unit] = key;
      const int chunk = unit < 0 ? 0 : stages_.chunk_of(unit);
      const int shift = unit < 0 ? 0 : stages_.first_unit(chunk + to - from) - stages_.first_unit(chunk);
      result[{kind, unit + shift}] = mean;
    }
    return result;
  }

 private:
  std::vector<std::vector<int>> kinds_in(int stage) const {
    std::vector<std::vector<int>> kinds;  // by chunk
    for (int chunk = stage; chunk < stages_.num_chunks(); chunk += stages_.pipeline) {
      kinds.emplace_back(kinds_.begin() + stages_.first_unit(chunk),
                         kinds_.begin() + stages_.end_unit(chunk));
    }
    return kinds;
  }

  const std::vector<int> kinds_;
  const StageMap stages_;
};

StepPrice::StepPrice(const PlannedJob& job, const Cluster& cluster, const ClusterDevice& device,
                     PricedRanks ranks) {
  const Backend backend = pricing_backend();
  PlannedJob recorded = shortened(job, ranks);
  recorded.options.backend = &backend;
  recorded.options.planning = Planning::kOwnRank;
  const OpTimes times(cluster, device);
  const ClusterNetwork network(cluster, device);
  const PriceRecorder recorder(recorded, times, network);
  const Mesh mesh = mesh_of(job.num_ranks, job.options.layout.pipeline, job.options.layout.tensor);
  const int num_places = ranks == PricedRanks::kAll ? std::min(mesh.size(Axis::kTensor), 2) : 1;
  const int num_stages = mesh.size(Axis::kPipeline);
  for (int place = 0; place < num_places; ++place) {
    const auto record = [&](int stage) {
      const int rank = mesh.rank({{Axis::kPipeline, stage}, {Axis::kTensor, place}});
      return recorder.record(rank, times_[{stage, place == 0}]);
    };
    const TwinStages twins(job, record(0));
    for (int stage = 1; stage < num_stages; ++stage) {
      const int twin = twins.first_twin(stage);
      if (twin == stage)
        record(stage);
      else
        times_[{stage, place == 0}] = twins.moved(times_.at({twin, place == 0}), twin, stage);
    }
  }
}

ActionTime StepPrice::of(const Coord& coord, const Action& action) const {
  const auto& means = times_.at({coord[Axis::kPipeline], coord[Axis::kTensor] == 0});
  const auto found = means.find({action.kind, action.unit});
  if (found == means.end()) return {.compute_ms = 0, .exchange_ms = 0.0};
  const Mean& mean = found->second;
  return {.compute_ms = 1e3 * mean.compute_s / mean.count, .exchange_ms = 1e3 * mean.exchange_s / mean.count};
}

double StepPrice::busy_ms(const RankPlan& plan, const Coord& coord) const {
  double sum = 0;
  for (const Action& action : plan.actions) sum += of(coord, action).compute_ms;
  return sum;
}

}  // namespace trireme
