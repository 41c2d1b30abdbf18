#include "parallel/foresee/step_record.h"

#include <algorithm>
#include <cstdlib>

#include "parallel/comm/recording.h"
#include "parallel/foresee/block_times.h"
#include "parallel/foresee/short_step.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::int64_t kMostMicroBatches = 8;

/// Stands in for the stream of the meta device, which has none: the calls since the last action.
struct RecordStream {
  bool is_recording = false;  // false while the engine is created
  std::vector<OpShape> calls;

  void add(const OpShape& shape) {
    if (is_recording) calls.push_back(shape);
  }
};

template <class Args>
void add_call(const KernelContext& exec, const Args& args) {
  auto& stream = *static_cast<RecordStream*>(exec.stream);
  if (stream.is_recording) stream.add(shape_of(args));
}

void add_bytes(const KernelContext& exec, std::string_view op, DType dtype, std::int64_t bytes) {
  static_cast<RecordStream*>(exec.stream)
      ->add({.op = op, .dtype = dtype, .cost = {.bytes = static_cast<double>(bytes)}});
}

Backend recording_backend() {
  Backend backend = meta_backend();
  backend.make_stream = [](Device, std::shared_ptr<Allocator>) -> std::shared_ptr<void> {
    return std::make_shared<RecordStream>();
  };
  backend.fill_zero = [](const KernelContext& exec, TensorView dst) {
    add_bytes(exec, "fill_zero", dst.dtype, bytes_of(dst));
  };
  backend.copy = [](const KernelContext& exec, TensorView dst, ConstTensorView src) {
    add_bytes(exec, "copy", dst.dtype, bytes_of(dst) + bytes_of(src));
  };
  backend.ops =
      OpTable<AllOps>::filled_by([]<class Args>(Op<Args>) -> Kernel<Args> { return add_call<Args>; });
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

ExchangeShape shape_of(const RecordedCall& call, const RecordedGroup& group) {
  const int distance =
      call.kind == CallKind::kSend ? std::abs(call.peer - group.comm->rank()) * group.ranks.stride : 0;
  return {call.kind, static_cast<double>(call.bytes), group.ranks, distance};
}

template <class Shape>
int index_of(std::vector<Shape>& shapes, const Shape& shape) {
  const auto found = std::ranges::find(shapes, shape);
  const auto index = static_cast<int>(found - shapes.begin());
  if (found == shapes.end()) shapes.push_back(shape);
  return index;
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

/// Plays a step of rank `rank` and adds the calls of its actions to the record's `place`. Returns the job's
/// cut into stages.
StageMap record_rank(const PlannedJob& job, int rank, StepRecord& record, StepRecord::Place place) {
  const std::unique_ptr<Engine> engine = engine_on_meta(job, rank);
  auto& stream = *static_cast<RecordStream*>(engine->context().exec.stream);
  stream.is_recording = true;
  std::vector<RecordedGroup> groups = groups_of(engine->groups());
  const std::vector<Action>& actions = engine->plan().ranks[static_cast<std::size_t>(rank)].actions;
  auto& by_action = record.calls[place];
  const auto take_ops = [&](ActionCalls& calls) {
    for (const OpShape& shape : stream.calls) ++calls.ops[index_of(record.ops, shape)];
    stream.calls.clear();
  };
  // A block communicates over the tensor axis while it runs. The plan has separate actions for this after
  // the block; the first of them is given the calls of all.
  std::map<int, int> within_block;
  engine->observe_actions([&](std::size_t index) {
    const Action& action = actions[index];
    ActionCalls& calls = by_action[{action.kind, action.unit}];
    ++calls.count;
    take_ops(calls);
    if (is_tensor_call(action.kind)) {
      for (const auto& [exchange, times] : std::exchange(within_block, {}))
        calls.exchanges[exchange] += times;
    }
    for (RecordedGroup& group : groups) {
      const bool is_within_block = group.is_tensor_axis && computes(action.kind);
      const std::vector<RecordedCall>& recorded = group.comm->calls();
      for (; group.num_known < recorded.size(); ++group.num_known) {
        const int exchange = index_of(record.exchanges, shape_of(recorded[group.num_known], group));
        ++(is_within_block ? within_block : calls.exchanges)[exchange];
      }
    }
  });
  engine->step(batches_without_data(job.sample), 1, 0.0);
  TRIREME_CHECK(within_block.empty(),
                "a block of rank {} exchanges over the tensor axis, and no action says so", rank);
  // The step's records, after its last action.
  take_ops(by_action[{actions.back().kind, actions.back().unit}]);
  return engine->plan().stages;
}

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

  /// The calls of stage `from`, moved to its twin `to`.
  std::map<StepRecord::Key, ActionCalls> moved(const std::map<StepRecord::Key, ActionCalls>& calls, int from,
                                               int to) const {
    std::map<StepRecord::Key, ActionCalls> result;
    for (const auto& [key, of_action] : calls) {
      const auto& [kind, unit] = key;
      const int chunk = unit < 0 ? 0 : stages_.chunk_of(unit);
      const int shift = unit < 0 ? 0 : stages_.first_unit(chunk + to - from) - stages_.first_unit(chunk);
      result[{kind, unit + shift}] = of_action;
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

}  // namespace

double ExchangeShape::seconds(const ClusterNetwork& network) const {
  switch (kind) {
    case CallKind::kAllReduce:
      return network.all_reduce_s(bytes, ranks);
    case CallKind::kSend:
      return network.message_s(bytes, distance);
    case CallKind::kBroadcast:  // all of it passes every link
      return ranks.size < 2 ? 0 : network.gather_s(bytes * ranks.size / (ranks.size - 1), ranks);
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
  return network.gather_s(bytes, ranks);
}

StepRecord::StepRecord(const PlannedJob& job, PricedRanks ranks) {
  const Backend backend = recording_backend();
  PlannedJob recorded = shortened(job, ranks);
  recorded.options.backend = &backend;
  recorded.options.planning = Planning::kOwnRank;
  const Mesh mesh = mesh_of(job.num_ranks, job.options.layout.pipeline, job.options.layout.tensor);
  const int num_places = ranks == PricedRanks::kAll ? std::min(mesh.size(Axis::kTensor), 2) : 1;
  const int num_stages = mesh.size(Axis::kPipeline);
  for (int place = 0; place < num_places; ++place) {
    const auto record = [&](int stage) {
      const int rank = mesh.rank({{Axis::kPipeline, stage}, {Axis::kTensor, place}});
      return record_rank(recorded, rank, *this, {stage, place == 0});
    };
    const TwinStages twins(job, record(0));
    for (int stage = 1; stage < num_stages; ++stage) {
      const int twin = twins.first_twin(stage);
      if (twin == stage)
        record(stage);
      else
        calls[{stage, place == 0}] = twins.moved(calls.at({twin, place == 0}), twin, stage);
    }
  }
}

}  // namespace trireme
